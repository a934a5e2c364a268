import { Command } from "commander";
import { readDevConfig } from "../config.ts";
import { createTerminal } from "../terminal.ts";
import { type ReleaseOptions, release } from "./release.ts";

const { color } = readDevConfig();
const terminal = createTerminal({ out: process.stdout, err: process.stderr, color, json: false });

await new Command("npm run release --")
  .description("Build, sign and push the images and the chart, and build kubectl deputize for npm and krew")
  .option("--dry-run", "push only to a registry on this machine; without --key, sign with a new key")
  .option("--registry <prefix>", "prefix of the repositories, such as registry.example.com/deputize")
  .option("--downloads <url>", "address of the folder from which krew downloads the plugin")
  .option("--key <file>", "private key for the signatures: P-256, in PEM")
  .option("--passphrase-file <file>", "file with the passphrase of an encrypted key")
  .option("--images <folder>", "use the archives that npm run images wrote to this folder")
  .option("--base <image>", "build the images on this image: Node 26 on Debian, by its digest")
  .option("--local-base", "build the images on Debian's packages and the locked Node")
  .option("--ca <file>", "certificates that npm trusts while it builds the images")
  .option("--out <folder>", "new folder for the release (default: ~/.cache/deputize/release/<version>)")
  .action(async (options: ReleaseOptions) => {
    try {
      await release(options, terminal);
    } catch (error) {
      terminal.problem(error);
      process.exitCode = 1;
    }
  })
  .parseAsync();
