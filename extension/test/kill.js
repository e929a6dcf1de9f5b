// Ends Pi as a power failure would, after so many edits of the first commit: an extension that loads after ours.

/** Which edit of a commit is the last one to be written: none at 0. */
const LAST = Number(process.env.PI_FOLD_TEST_KILL);

export default function kill(pi) {
  pi.on("session_start", (_event, { sessionManager }) => {
    let edits;
    const counts = (name, count) => {
      const append = sessionManager[name];
      sessionManager[name] = function (...given) {
        const id = append.apply(this, given);
        count(this.getEntry(id));
        if (edits === LAST) process.kill(process.pid, "SIGKILL");
        return id;
      };
    };
    counts("appendCustomEntry", (entry) => {
      if (entry.customType === "pi-fold.commit") edits ??= 0;
    });
    counts("appendContextEdit", () => {
      if (edits !== undefined) edits += 1;
    });
  });
}
