import { VaultError } from "../errors.ts";

/** Runs a read; any failure of the database becomes `VaultError unavailable`. */
export async function available<T>(read: () => PromiseLike<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    throw new VaultError("unavailable", undefined, { cause: error });
  }
}
