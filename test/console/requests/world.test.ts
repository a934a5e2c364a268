import { readFileSync } from "node:fs";
import { geoAzimuthalEquidistant } from "d3-geo";
import { feature } from "topojson-client";
import type { GeometryCollection, Topology } from "topojson-specification";
import { expect, test } from "vitest";
import { countriesPath, shapePath } from "../../../src/console/elements/limits/world.ts";

const file = new URL(import.meta.resolve("world-atlas/countries-50m.json"));
const topology = JSON.parse(readFileSync(file, "utf8")) as Topology<{ countries: GeometryCollection }>;
const everything = feature(topology, topology.objects.countries);

test.each([
  ["Lapland", 69, 25],
  ["the north of Greenland", 82, -40],
  ["Fiji", -17, 179.5],
  ["Chukotka, over the date line", 66, -179],
  ["the south pole", -89.5, 0],
  ["the equator", 0, 32],
])("what is far from %s is left out, and nothing that is near", (_, lat, lon) => {
  const radius = 4;
  const projection = geoAzimuthalEquidistant()
    .rotate([-lon, -lat])
    .translate([240, 150])
    .scale(150 / ((radius * Math.PI) / 180))
    .clipAngle(radius * 2)
    .clipExtent([
      [-5, -5],
      [485, 305],
    ]);
  expect(countriesPath({ lat, lon, radius }, projection)).toBe(shapePath(everything, projection));
});
