import { accessSync, constants, existsSync, realpathSync } from "node:fs";
import { basename, delimiter, dirname, join } from "node:path";

/**
 * How to run npm: as the npm that runs this, if one does, by a Node that is not itself part of what it
 * replaces.
 *
 * @param {string} root
 * @returns {string[]}
 */
export function npmCommand(root) {
  const { npm_execpath: cli = "" } = process.env;
  const node = foreignNode(root);
  return basename(cli) === "npm-cli.js" && node !== undefined ? [node, cli] : ["npm"];
}

/**
 * @param {string} root
 * @returns {Record<string, string | undefined>} This environment without the project's own programs, and with
 * the
 *   headers that lie beside that Node, if they do, so that nothing is compiled against downloaded ones.
 */
export function npmEnvironment(root) {
  const node = foreignNode(root);
  const prefix = node === undefined ? "" : dirname(dirname(realpathSync(node)));
  const hasHeaders = existsSync(join(prefix, "include/node/node_api.h"));
  const headers = hasHeaders
    ? { npm_config_nodedir: prefix, npm_package_config_node_gyp_nodedir: prefix }
    : {};
  return { ...headers, ...process.env, PATH: foreignFolders(root).join(delimiter) };
}

/** @param {string} root */
function foreignNode(root) {
  return foreignFolders(root)
    .map((folder) => join(folder, "node"))
    .find((path) => {
      try {
        accessSync(path, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}

/** @param {string} root */
function foreignFolders(root) {
  const own = join(root, "node_modules");
  return (process.env.PATH ?? "")
    .split(delimiter)
    .filter((folder) => folder !== "" && !folder.startsWith(own));
}
