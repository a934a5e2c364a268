import { exitStatus } from "../exit_status.ts";

/** A startup failure that the user can correct. The command line shows its message without a stack trace. */
export class StartError extends Error {}

/** The exit status after a {@link ConfigError} or another {@link StartError}. */
export const WRONG_SETTING = exitStatus.setting;

/** A startup failure because of an invalid setting. The message names the setting, never its value. */
export class ConfigError extends StartError {}

/** A fault of one setting. The message follows the setting's name. */
export type Fault = { name: string; message: string };

/** Returns one error for all faults. */
export function configError(faults: readonly Fault[]): ConfigError {
  const lines = faults.map(({ name, message }) => `\n  ${name}: ${message}`);
  return new ConfigError(`Settings are missing or wrong:${lines.join("")}`);
}
