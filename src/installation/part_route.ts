import { z } from "zod";
import { type Route, route } from "../route.ts";
import { alerts } from "./alerts.ts";
import type { Installation } from "./installation.ts";
import { type Figure, figureStates, partNames, partStates, units } from "./part.ts";

const figure = z.object({
  name: z.string().describe("A metric of docs/observability.md or docs/events.md, or a name of its own"),
  about: z.string().nullable().describe("What of several it is about, such as a consumer or a cluster"),
  value: z.union([z.number(), z.string()]).nullable(),
  unit: z.enum(units).describe("What the value is; a time is ISO 8601"),
  at: z.iso.datetime().describe("When it was so"),
  state: z.enum(figureStates),
  alert: z.string().nullable().describe("The alert rule of docs/alerts that fires when this lasts"),
  runbook: z.string().nullable().describe("The page and section that say what to do"),
});
const answer = z.object({
  part: z.enum(partNames),
  state: z
    .enum(partStates)
    .describe("The worst of its figures; away: it, or what tells of it, gave no answer"),
  at: z.iso.datetime(),
  fault: z.string().nullable().describe("Why there are no figures"),
  figures: z.array(figure),
});
/** How a part of the installation is. */
export type PartAnswer = z.infer<typeof answer>;

/** `GET /v1/service/installation/parts/{part}`: the figures of one part, for who looks after the service. */
export function partRoute({ installation }: { installation: Installation }): Route {
  return route({
    id: "get_installation_part",
    method: "GET",
    path: "/v1/service/installation/parts/{part}",
    summary: "See how a part of the installation does",
    access: "session",
    roles: "service_administrator",
    params: z.object({ part: z.enum(partNames) }),
    answer: { status: 200, schema: answer, description: "Its figures, and what is wrong with them" },
    errors: [],
    async handle({ params }) {
      const { at, figures, ...reading } = await installation.read(params.part);
      return { body: { ...reading, at: at.toISOString(), figures: figures.map(figureAnswer) } };
    },
  });
}

function figureAnswer({ at, alert, ...rest }: Figure): z.infer<typeof figure> {
  const runbook = alert === null ? null : alerts[alert].runbook;
  return { ...rest, at: at.toISOString(), alert, runbook };
}
