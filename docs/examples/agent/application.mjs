import express from "express";
import { authorityOf, createGuard, guardExpress } from "deputize/guard";

const guard = createGuard({ baseUrl: process.env.BASE_URL, apiKey: process.env.VERIFY_KEY });

const app = express();
app.use(express.json());
app.post("/orders", guardExpress(guard, { requiredScope: "data:read", operation: true }), (request, response) => {
  const { humanId, payload } = authorityOf(request);
  response.json({ ordered: payload, for: humanId });
});
const server = app.listen(Number(process.env.PORT ?? 3000), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}`);
});
