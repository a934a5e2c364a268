type Environment = Record<string, string | undefined>;

/** Settings of the development stack, read from its environment. */
export type DevConfig = {
  /** The only variables that every part inherits. They locate programs and the home folder. */
  inherited: Environment;
  /** Path of the vault's PKCS#11 module. Undefined lets the vault choose one. */
  pkcs11Module: string | undefined;
  /** False if `NO_COLOR` is set or the terminal is `dumb`. */
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
