import { hash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";
import type Koa from "koa";
import { type Html, inlineStyle } from "../../html/html.ts";
import { CONSOLE } from "./places.ts";

/** URLs of the static files that pages load, and the style sheet as a `<style>` element. */
export type Assets = { style: string; script: string; htmx: string; icon: string; inline: InlineStyle };

/** A `<style>` element, and the source expression that allows it in a content security policy. */
type InlineStyle = { element: Html; source: string };

type File = { type: string; plain: Buffer; br?: Buffer; gzip?: Buffer };

const FOLDER = `${CONSOLE}/assets/`;
const HERE = join(import.meta.dirname, "..");

/**
 * Reads the static files that pages load. A file's URL contains a hash of its content, so browsers may cache
 * it forever. A URL with any other hash returns 404.
 */
export function readAssets(root: string): { assets: Assets; serve: Koa.Middleware } {
  const files = new Map<string, File>();
  const add = (name: string, type: string, text: string): string => {
    const [stem, ending] = name.split(".");
    const plain = Buffer.from(text);
    const path = `${FOLDER}${stem}-${hash("sha256", plain, "base64url").slice(0, 16)}.${ending}`;
    files.set(path, { type, plain });
    return `${root}${path}`;
  };
  const style = compact(joined("style", ".css"));
  const assets = {
    inline: {
      element: inlineStyle(style),
      source: `'sha256-${hash("sha256", style, "base64")}'`,
    },
    style: add("style.css", "text/css; charset=utf-8", style),
    script: add("console.js", "text/javascript; charset=utf-8", joined("scripts", ".js")),
    htmx: add(
      "htmx.js",
      "text/javascript; charset=utf-8",
      readFileSync(new URL(import.meta.resolve("htmx.org/dist/htmx.min.js")), "utf8"),
    ),
    icon: add("icon.svg", "image/svg+xml", readFileSync(join(HERE, "style", "icon.svg"), "utf8")),
  };
  return {
    assets,
    async serve(ctx, next) {
      const file = ctx.method === "GET" || ctx.method === "HEAD" ? files.get(ctx.path) : undefined;
      if (file === undefined) return next();
      const encoding = ctx.acceptsEncodings("br", "gzip", "identity");
      ctx.set("cache-control", "public, max-age=31536000, immutable");
      ctx.set("cross-origin-resource-policy", "same-origin");
      ctx.vary("accept-encoding");
      ctx.type = file.type;
      if (encoding === "br" || encoding === "gzip") {
        file[encoding] ??= encoding === "br" ? brotliCompressSync(file.plain) : gzipSync(file.plain);
        ctx.set("content-encoding", encoding);
        ctx.body = file[encoding];
      } else {
        ctx.body = file.plain;
      }
    },
  };
}

/** Removes comments and meaningless white space from CSS that has one declaration on each line. */
function compact(css: string): string {
  return css
    .replaceAll(/\/\*.*?\*\//gs, "")
    .replaceAll(/\s*\n\s*/g, " ")
    .replaceAll(/ ?([{};,]) ?/g, "$1");
}

function joined(folder: string, ending: string): string {
  const names = readdirSync(join(HERE, folder)).filter((name) => name.endsWith(ending));
  return names
    .sort()
    .map((name) => readFileSync(join(HERE, folder, name), "utf8"))
    .join("\n");
}
