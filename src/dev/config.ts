type Environment = Record<string, string | undefined>;

/** What the development stack takes from its environment. */
export interface DevConfig {
  /** What every part inherits, and nothing more: where programs and the home folder are. */
  inherited: Environment;
  /** False when NO_COLOR is set, or the terminal says it is a dumb one. */
  color: boolean;
}

/** Reads the development stack's settings. */
export function readDevConfig(environment: Environment = process.env): DevConfig {
  const { PATH, HOME, NO_COLOR, TERM } = environment;
  return { inherited: { PATH, HOME }, color: (NO_COLOR ?? "") === "" && TERM !== "dumb" };
}
