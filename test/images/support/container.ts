import { spawn } from "node:child_process";
import { once } from "node:events";
import { chown, mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { UnpackedImage } from "./built_images.ts";

const USER = 10001;

/**
 * Runs a program as the strictest clusters do: as the image's user, with a read-only root, an empty `/tmp`,
 * one volume at `/data`, and without this process's environment.
 */
const SCRIPT = `
root=$1 data=$2; shift 2
mount --bind "$root" "$root" && mount -t proc proc "$root/proc" && mount --bind /dev "$root/dev" \
  && mount -t tmpfs -o mode=1777 tmpfs "$root/tmp" && mount --bind "$data" "$root/data" \
  && mount -o remount,bind,ro "$root" "$root" && exec env -i "$@"`;

/** A program that runs inside an image. */
export type Container = {
  /** Returns the program's output so far, from both streams. */
  said(): string;
  /** Waits until the program's output matches. Throws if the program exits first. */
  until(what: RegExp): Promise<void>;
  /** Resolves to the exit status, or to the name of the signal that stopped the program. */
  ended: Promise<number | string>;
  /** Stops the program with the signal that the image declares. Resolves to the exit status. */
  stop(): Promise<number | string>;
};

export type ContainerOptions = {
  args: string[];
  settings?: Record<string, string>;
  /** Folder of this machine that the container sees as the volume. */
  data: string;
  input?: string;
};

/** Starts an image's program in the way that the image's configuration declares. */
export async function startContainer(image: UnpackedImage, options: ContainerOptions): Promise<Container> {
  const { root, config } = image;
  const { args, settings = {}, data, input } = options;
  await mkdir(join(root, "data"), { recursive: true });
  await mkdir(data, { recursive: true });
  await chown(data, USER, USER);
  const environment = [...config.Env, ...Object.entries(settings).map(([name, value]) => `${name}=${value}`)];
  const inside = [
    "/usr/sbin/chroot",
    `--userspec=${config.User}`,
    "--groups=",
    root,
    ...config.Entrypoint,
    ...args,
  ];
  const child = spawn(
    "unshare",
    [
      "--mount",
      "--pid",
      "--fork",
      "--kill-child",
      "sh",
      "-c",
      SCRIPT,
      "sh",
      root,
      data,
      ...environment,
      ...inside,
    ],
    { detached: true, stdio: ["pipe", "pipe", "pipe"] },
  );
  child.stdin.end(input);
  let text = "";
  let more = Promise.withResolvers<void>();
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (part) => {
      text += part;
      more.resolve();
      more = Promise.withResolvers();
    });
  }
  const ended = once(child, "close").then(([code, signal]): number | string => code ?? signal);
  return {
    said: () => text,
    ended,
    async until(what) {
      while (!what.test(text)) {
        const status = await Promise.race([more.promise, ended]);
        if (status !== undefined) throw new Error(`The program ended with ${status} and printed:\n${text}`);
      }
    },
    async stop() {
      if (child.pid !== undefined && child.exitCode === null) {
        process.kill(-child.pid, (config.StopSignal ?? "SIGTERM") as NodeJS.Signals);
      }
      return ended;
    },
  };
}

/** Runs an image's program. Returns its exit status and output. */
export async function runContainer(image: UnpackedImage, options: ContainerOptions) {
  const container = await startContainer(image, options);
  const status = await container.ended;
  return { status, said: container.said() };
}
