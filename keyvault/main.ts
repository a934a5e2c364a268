import { exitStatus } from "./errors.ts";
import { hardenProcess } from "./hardening.ts";

hardenProcess();
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
  // The reader, such as `head`, has ended.
  process.exit(exitStatus.brokenPipe);
});
const { runProgram } = await import("./program.ts");
await runProgram(process.argv.slice(2));
