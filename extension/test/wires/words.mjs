// What the rules of the four APIs have in common.

import { createHash } from "node:crypto";

export const duplicates = (ids) => ids.filter((id, index) => ids.indexOf(id) !== index);
export const blank = (text) => typeof text !== "string" || text.trim() === "";
/** What a provider signs cannot be changed: the signature is of the text. */
export const signed = (text) => createHash("sha256").update(text).digest("base64");
export const listed = (ids) => ids.join(", ");
export const object = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** Content that is a text or a list of parts, neither of them empty. */
export function noContent(content, where) {
  if (typeof content === "string") return blank(content) ? `Invalid '${where}.content': empty string.` : undefined;
  if (!Array.isArray(content)) return `Invalid type for '${where}.content': expected one of a string or array of objects, but got null instead.`;
  if (content.length === 0)
    return `Invalid '${where}.content': empty array. Expected an array with minimum length 1, but got an empty array instead.`;
  const at = content.findIndex((part) => "text" in part && blank(part.text));
  return at < 0 ? undefined : `Invalid '${where}.content[${at}].text': empty string.`;
}
