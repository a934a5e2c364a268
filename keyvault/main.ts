import { hardenProcess } from "./hardening.ts";

hardenProcess();
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
  process.exit(1);
});
const { runProgram } = await import("./program.ts");
await runProgram(process.argv.slice(2));
