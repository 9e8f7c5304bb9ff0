// A commit by the client that oapi-codegen has generated.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"generated/api"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	url, namespace, basePath := os.Args[1], os.Args[2], os.Args[3]
	size := must(strconv.ParseInt(os.Args[4], 10, 64))
	name, fileId := namespace+".made", "00000000-0000-0000-0000-000000000000-0"
	ctx := context.Background()
	client := must(api.NewClientWithResponses(url))
	must(client.CreateNamespaceWithResponse(ctx, nil, api.CreateNamespace{Name: namespace}))
	properties := map[string]string{"hudi.publish": "false"}
	must(client.CreateTableWithResponse(ctx, nil, api.CreateTable{
		Name: name, BasePath: basePath, RecordKeyFields: []string{"id"}, Properties: &properties,
		Schema: []api.NewField{{Name: "id", Type: "bigint"}},
	}))
	begun := must(client.BeginInstantWithResponse(ctx, name, nil, api.BeginInstant{Writer: "generated"}))
	instant := must(begun.JSON201.AsInstant())
	time, writer := instant.RequestedTime, "generated"
	stats := []api.WriteStat{{
		FileId: fileId, FileName: fileId + "_0-0-0_" + time + ".parquet", SizeBytes: size, Records: 1,
	}}
	must(client.CompleteInstantWithResponse(ctx, name, time, nil,
		api.CompleteInstant{Writer: &writer, WriteStats: &stats}))
	snapshot := must(client.GetSnapshotWithResponse(ctx, name, nil))
	fmt.Println(snapshot.JSON200.Slices[0].BaseFile.SizeBytes)
	unknown := must(client.GetNamespaceWithResponse(ctx, "nothing"))
	fmt.Println(unknown.ApplicationproblemJSON404.Code)
}
