/** Minimum length of a string that is replaced by a name: all keys and signatures are longer. */
const SHORTEST_NAMED = 40;
const NAME = "⟦([\\w.]+)⟧";

/** Replaces the seeds' keys and signatures by names such as `⟦bundle.0.challenge_sig.ed25519⟧`. */
export type Shorthand = {
  shorten(input: Uint8Array): Uint8Array;
  /** Throws `Error` for a name that no seed has. */
  restore(short: Uint8Array): Uint8Array;
};

/** Returns a shorthand for these documents. Each long string is named by its first place. */
export function createShorthand(documents: Readonly<Record<string, readonly Uint8Array[]>>): Shorthand {
  const parsed = Object.entries(documents).map(([kind, each]) => [
    kind,
    each.map((document) => JSON.parse(Buffer.from(document).toString("utf8"))),
  ]);
  const texts = new Map(longTexts(Object.fromEntries(parsed)));
  const names = new Map([...texts].reverse().map(([name, text]) => [text, name]));
  return {
    shorten: (input) => {
      let short = Buffer.from(input).toString("latin1");
      for (const [text, name] of names) short = short.replaceAll(text, bytesOf(`⟦${name}⟧`));
      return Buffer.from(short, "latin1");
    },
    restore: (short) => {
      const inBytes = new RegExp(bytesOf(NAME), "g");
      const restored = Buffer.from(short)
        .toString("latin1")
        .replaceAll(inBytes, (_, name: string) => {
          const text = texts.get(name);
          if (text === undefined) throw new Error(`no seed has ${name}`);
          return text;
        });
      return Buffer.from(restored, "latin1");
    },
  };
}

function longTexts(value: unknown, path = ""): [string, string][] {
  if (typeof value === "string") return value.length < SHORTEST_NAMED ? [] : [[path, value]];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, member]) =>
    longTexts(member, path === "" ? key : `${path}.${key}`),
  );
}

/** Returns one character for each byte, so that inputs that are not UTF-8 keep every byte. */
function bytesOf(text: string): string {
  return Buffer.from(text, "utf8").toString("latin1");
}
