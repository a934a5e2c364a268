/**
 * The bytes in memory of their own. Short ones that the database's driver reads, and those that `Buffer.from`
 * gives, are pieces of a pool: each that is kept keeps 64 KiB.
 */
export function ownBytes(bytes: Uint8Array): Buffer {
  const own = Buffer.from(new ArrayBuffer(bytes.length));
  own.set(bytes);
  return own;
}
