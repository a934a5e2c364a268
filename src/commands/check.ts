import type { Command } from "commander";

/** Declares `deputize check`. Its code is imported only when it runs. */
export function declareCheck(program: Command): void {
  program
    .command("check")
    .description("Check manifests without a cluster or the service; exit status 1 if one would be refused")
    .argument("<folder>", "folder with *.yaml and *.yml files, or one file")
    .option(
      "--base <revision>",
      "also show what changed since this Git revision: what is lent, and who must agree",
    )
    .option("--json", "print one JSON object")
    .option("--github", "print annotations for a pull request, as GitHub Actions reads them")
    .action(async (folder, options) => {
      const { runCheck } = await import("../check/check_command.ts");
      process.exitCode = await runCheck({ ...options, folder });
    });
}
