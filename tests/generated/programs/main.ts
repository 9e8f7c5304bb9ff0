// A commit by the types that openapi-typescript has generated.
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

const [url, namespace, basePath, size] = process.argv.slice(2) as [string, string, string, string];
const name = `${namespace}.made`;
const fileId = "00000000-0000-0000-0000-000000000000-0";
const client = createClient<paths>({ baseUrl: url });

await client.POST("/v1/namespaces", { body: { name: namespace } });
await client.POST("/v1/tables", {
  body: {
    name,
    base_path: basePath,
    schema: [{ name: "id", type: "bigint" }],
    record_key_fields: ["id"],
    properties: { "hudi.publish": "false" },
  },
});
const path = { table: name };
const { data: begun } = await client.POST("/v1/tables/{table}/instants", {
  params: { path },
  body: { writer: "generated" },
});
if (!begun || !("requested_time" in begun)) throw new Error("no instant");
const time = begun.requested_time;
await client.POST("/v1/tables/{table}/instants/{requested_time}/complete", {
  params: { path: { ...path, requested_time: time } },
  body: {
    writer: "generated",
    write_stats: [
      {
        partition_path: "",
        file_id: fileId,
        file_name: `${fileId}_0-0-0_${time}.parquet`,
        size_bytes: Number(size),
        records: 1,
      },
    ],
  },
});
const { data: snapshot } = await client.GET("/v1/tables/{table}/snapshot", { params: { path } });
if (typeof snapshot !== "object") throw new Error("no JSON");
console.log(String(snapshot.slices[0]?.base_file?.size_bytes));
const { error } = await client.GET("/v1/namespaces/{namespace}", { params: { path: { namespace: "nothing" } } });
console.log(error?.code);
