import java.util.List;
import java.util.Map;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.FilesApi;
import org.openapitools.client.api.NamespacesApi;
import org.openapitools.client.api.TablesApi;
import org.openapitools.client.api.TimelineApi;
import org.openapitools.client.model.*;

/** A commit by the client that openapi-generator has generated. */
public class Main {
    public static void main(String[] args) throws Exception {
        String table = args[1] + ".made", fileId = "00000000-0000-0000-0000-000000000000-0";
        ApiClient client = new ApiClient();
        client.updateBaseUri(args[0]);
        new NamespacesApi(client).createNamespace(new CreateNamespace().name(args[1]), null, null);
        new TablesApi(client).createTable(
                new CreateTable().name(table).basePath(args[2]).recordKeyFields(List.of("id"))
                        .schema(List.of(new NewField().name("id").type("bigint")))
                        .properties(Map.of("hudi.publish", "false")), null, null);
        TimelineApi timeline = new TimelineApi(client);
        String time = timeline.beginInstant(table, new BeginInstant().writer("generated"), null, null, null)
                .getInstant().getRequestedTime();
        WriteStat stat = new WriteStat().partitionPath("").fileId(fileId).sizeBytes(Long.parseLong(args[3]))
                .fileName(fileId + "_0-0-0_" + time + ".parquet").records(1L);
        timeline.completeInstant(table, time, new CompleteInstant().writer("generated").writeStats(List.of(stat)),
                null, null, null);
        Snapshot snapshot = new FilesApi(client).getSnapshot(table, null, null, null, null, null, null, null);
        System.out.println(snapshot.getSlices().get(0).getBaseFile().getSizeBytes());
        try {
            new NamespacesApi(client).getNamespace("nothing");
        } catch (ApiException refused) {
            System.out.println(refused.getResponseBody().replaceAll(".*\"code\":\"([^\"]+)\".*", "$1"));
        }
    }
}
