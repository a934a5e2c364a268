import express from "express";
import { authorityOf, createGuard, guardExpress } from "deputize/guard";

const { BASE_URL, API_KEY, VERIFIER_ID, WORKSPACE_ID } = process.env;
const verifier = { verifierId: VERIFIER_ID, workspaceId: WORKSPACE_ID };
const guard = createGuard({ baseUrl: BASE_URL, apiKey: API_KEY, verifier });

const app = express();
app.use(express.json());
app.post("/orders", guardExpress(guard, { requiredScope: "data:read", operation: true }), (request, response) => {
  const { humanId, payload } = authorityOf(request);
  response.json({ ordered: payload, for: humanId });
});
const server = app.listen(Number(process.env.PORT ?? 3000), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}`);
});
