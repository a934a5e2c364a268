import { readFileSync } from "node:fs";
import { type GeoPermissibleObjects, type GeoProjection, geoPath } from "d3-geo";
import { LRUCache } from "lru-cache";
import { feature } from "topojson-client";
import type { GeometryCollection, Topology } from "topojson-specification";

type Ring = [lon: number, lat: number][];
/** A piece of a country, with the degrees that it lies between. */
type Piece = { rings: Ring[]; west: number; east: number; south: number; north: number };

/** A part of the world around a place. Degrees. */
export type Region = { lat: number; lon: number; radius: number };

/** Regions wider than this are drawn of the coarser data. Degrees. */
const COARSE = 9;
/** Points nearer to each other than this are one; on maps of much of the earth. Units of the drawing. */
const NEAR = 2;
const NEAR_FROM_AFAR = 4;
/** Regions wider than this are much of the earth. Degrees. */
const AFAR = 30;

const worlds = new Map<string, Piece[]>();
const drawn = new LRUCache<string, string>({ max: 200 });

/**
 * The countries of a region as a path, by the data of Natural Earth, which is in the public domain. Nothing
 * is asked of anybody.
 */
export function countriesPath({ lat, lon, radius }: Region, projection: GeoProjection): string {
  const key = `${lat} ${lon} ${radius}`;
  const known = drawn.get(key);
  if (known !== undefined) return known;
  const shown = pieces(radius > COARSE ? "110m" : "50m").filter((piece) =>
    isNear(piece, { lat, lon, radius: radius * 2 }),
  );
  const coordinates = shown.map(({ rings }) => rings);
  const near = radius > AFAR ? NEAR_FROM_AFAR : NEAR;
  const path = shapePath({ type: "MultiPolygon", coordinates }, projection, near);
  drawn.set(key, path);
  return path;
}

/** A shape on earth as a path, in whole units, without points that nobody can tell apart. */
export function shapePath(shape: GeoPermissibleObjects, projection: GeoProjection, near = NEAR): string {
  const path = new PathText(near);
  geoPath(projection, path)(shape);
  return path.text;
}

/** Lines as a path; what is too small to be seen is left out. */
class PathText {
  #done = "";
  #line: string[] = [];
  #last: [number, number] = [0, 0];
  readonly #near: number;

  constructor(near: number) {
    this.#near = near;
  }

  get text(): string {
    return this.#done + this.#line.join("");
  }

  beginPath(): void {}

  moveTo(x: number, y: number): void {
    this.#done = this.text;
    this.#line = [];
    this.#add("M", x, y);
  }

  lineTo(x: number, y: number): void {
    if (Math.hypot(x - this.#last[0], y - this.#last[1]) >= this.#near) this.#add("L", x, y);
  }

  closePath(): void {
    if (this.#line.length > 2) this.#done = `${this.text}Z`;
    this.#line = [];
  }

  arc(): void {}

  #add(command: string, x: number, y: number): void {
    this.#last = [x, y];
    this.#line.push(`${command}${Math.round(x)} ${Math.round(y)}`);
  }
}

const FILES = {
  "50m": import.meta.resolve("world-atlas/countries-50m.json"),
  "110m": import.meta.resolve("world-atlas/countries-110m.json"),
};

function pieces(detail: keyof typeof FILES): Piece[] {
  const known = worlds.get(detail);
  if (known !== undefined) return known;
  const text = readFileSync(new URL(FILES[detail]), "utf8");
  const topology = JSON.parse(text) as Topology<{ countries: GeometryCollection }>;
  const made = feature(topology, topology.objects.countries).features.flatMap(({ geometry }) => {
    if (geometry.type === "Polygon") return [pieceOf(geometry.coordinates as Ring[])];
    return geometry.type === "MultiPolygon" ? (geometry.coordinates as Ring[][]).map(pieceOf) : [];
  });
  worlds.set(detail, made);
  return made;
}

function pieceOf(rings: Ring[]): Piece {
  const outline = rings[0] ?? [];
  const lons = outline.map(([lon]) => lon);
  const lats = outline.map(([, lat]) => lat);
  return {
    rings,
    west: Math.min(...lons),
    east: Math.max(...lons),
    south: Math.min(...lats),
    north: Math.max(...lats),
  };
}

/** Whether a piece may reach into a region; its degrees are a box around it. */
function isNear({ west, east, south, north }: Piece, { lat, lon, radius }: Region): boolean {
  if (south > lat + radius || north < lat - radius) return false;
  const widest = Math.min(90, Math.abs(lat) + radius);
  const reach = widest >= 89 ? 360 : radius / Math.cos((widest * Math.PI) / 180);
  return [-360, 0, 360].some((turn) => west + turn <= lon + reach && east + turn >= lon - reach);
}
