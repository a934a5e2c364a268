import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { debianProgram } from "./debian.ts";

/** A running nginx, in the foreground and as one process of its own. */
export type Nginx = { stop(): Promise<void> };

/** Where nginx is, installed if need be; nothing when it cannot be had. */
export function findNginx(): Promise<string | undefined> {
  return debianProgram("/usr/sbin/nginx", "nginx-light");
}

/** Runs nginx with these lines in its `http` block until it accepts connections on `port`. */
export async function startNginx(program: string, port: number, http: string): Promise<Nginx> {
  const folder = await mkdtemp(join(tmpdir(), "deputize-nginx-"));
  const places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  const configuration = `
    daemon off; master_process off; pid ${folder}/pid; error_log stderr warn;
    events { worker_connections 64; }
    http {
      access_log off;
      ${places.map((name) => `${name}_temp_path ${folder}/${name};`).join(" ")}
      ${http}
    }`;
  await writeFile(join(folder, "nginx.conf"), configuration);
  const child = spawn(program, ["-c", join(folder, "nginx.conf"), "-p", folder, "-e", "stderr"], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let complaints = "";
  child.stderr.on("data", (chunk) => {
    complaints += chunk;
  });
  const ended = once(child, "exit");
  for (const end = performance.now() + 20_000; !(await accepts(port)); await sleep(50)) {
    if (child.exitCode !== null || performance.now() > end)
      throw new Error(`nginx does not run: ${complaints}`);
  }
  return {
    async stop() {
      child.kill("SIGTERM");
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => resolve(true));
    socket.on("error", () => resolve(false)).on("connect", () => socket.destroy());
  });
}
