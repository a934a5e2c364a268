type Environment = Record<string, string | undefined>;

/** What the development stack takes from its environment. */
export type DevConfig = {
  /** What every part inherits, and nothing more: where programs and the home folder are. */
  inherited: Environment;
  /** The PKCS#11 module for the vault; undefined leaves the choice to it. */
  pkcs11Module: string | undefined;
  /** False when NO_COLOR is set, or the terminal says it is a dumb one. */
  color: boolean;
};

/** Reads the development stack's settings. */
export function readDevConfig(environment: Environment = process.env): DevConfig {
  const { PATH, HOME, KEYVAULT_PKCS11_MODULE, NO_COLOR, TERM } = environment;
  return {
    inherited: { PATH, HOME },
    pkcs11Module: KEYVAULT_PKCS11_MODULE,
    color: (NO_COLOR ?? "") === "" && TERM !== "dumb",
  };
}
