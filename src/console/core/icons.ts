import { readFileSync } from "node:fs";
import { type Html, html } from "../../html/html.ts";

/**
 * The files of the icons in the package `heroicons`, by the name that pages use. The icons of the navigation
 * are on every page, so they have few bytes.
 */
const FILES = {
  home: "home",
  requests: "bell",
  delegations: "key",
  agents: "bolt",
  platforms: "cube",
  products: "shopping-bag",
  history: "clock",
  try_it: "play",
  credit: "credit-card",
  organization: "user-group",
  service: "lifebuoy",
  menu: "bars-3",
  back: "arrow-left",
  add: "plus",
  download: "arrow-down-tray",
} as const;

/** An icon that pages can show. */
export type IconName = keyof typeof FILES;

const PACKAGE = import.meta.resolve("heroicons/package.json");
const ICONS = Object.fromEntries(Object.entries(FILES).map(([name, file]) => [name, draw(file)])) as Readonly<
  Record<IconName, Html>
>;

/** Returns an icon in the color of the text beside it. Screen readers ignore it: the text says the same. */
export function icon(name: IconName): Html {
  return ICONS[name];
}

/** Returns the icon with this id, or nothing: some entries of the navigation may have no icon. */
export function iconOf(id: string): Html | undefined {
  return Object.hasOwn(ICONS, id) ? icon(id as IconName) : undefined;
}

function draw(file: string): Html {
  const svg = readFileSync(new URL(`20/solid/${file}.svg`, PACKAGE), "utf8");
  const paths = [...svg.matchAll(/<path [^>]*?\bd="([^"]*)"/g)];
  return html`<svg class="icon" viewBox="0 0 20 20" aria-hidden="true">${paths.map(
    ([, d]) => html`<path d=${d} />`,
  )}</svg>`;
}
