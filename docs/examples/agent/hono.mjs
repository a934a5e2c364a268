import { serve } from "@hono/node-server";
import { createGuard, guardFetch } from "deputize/guard";
import { Hono } from "hono";

const { BASE_URL, VERIFY_KEY } = process.env;
const guard = createGuard({ baseUrl: BASE_URL, apiKey: VERIFY_KEY });
const rule = { requiredScope: "data:read", operation: true };

const order = guardFetch(guard, rule, (_request, { humanId, payload }) =>
  Response.json({ ordered: payload, for: humanId }),
);

const app = new Hono();
app.post("/orders", (context) => order(context.req.raw));
serve({ fetch: app.fetch, hostname: "127.0.0.1", port: Number(process.env.PORT ?? 3000) }, ({ port }) => {
  console.log(`http://127.0.0.1:${port}`);
});
