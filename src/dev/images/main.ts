import { Command } from "commander";
import { readDevConfig } from "../config.ts";
import { createTerminal } from "../terminal.ts";
import { buildImages, type ImagesOptions } from "./build.ts";

const { color } = readDevConfig();
const terminal = createTerminal({ out: process.stdout, err: process.stderr, color, json: false });

await new Command("npm run images --")
  .description("Build the images, and write archives of them with their bills of materials")
  .option("--tag <tag>", "the images' tag", "dev")
  .option("--base <image>", "build on this image: Node 26 on Debian, by its digest")
  .option("--local-base", "build on Debian's packages and the locked Node, without a registry")
  .option("--ca <file>", "certificates that npm trusts while it builds; they are not in the images")
  .option("--only <targets...>", "build only these: deputize, keyvault, postgres")
  .option("--out <folder>", "folder for the archives (default: ~/.cache/deputize/images/<tag>)")
  .action(async (options: ImagesOptions) => {
    try {
      await buildImages(options, terminal);
    } catch (error) {
      terminal.problem(error);
      process.exitCode = 1;
    }
  })
  .parseAsync();
