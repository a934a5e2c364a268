import { events, kafka } from "./event_rows.ts";
import { operator } from "./operator_row.ts";
import type { Row } from "./queries.ts";
import { api, overview, processes, vault } from "./service_rows.ts";

/** The dashboard from top to bottom. */
export const rows: readonly Row[] = [overview, api, vault, events, kafka, operator, processes];
