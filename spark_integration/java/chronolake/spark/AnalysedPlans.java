package chronolake.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/** Spark's analysed plans: the tables that a query reads. */
final class AnalysedPlans {
  private AnalysedPlans() {}

  /** The tables of a query, also of its subqueries and views, for which the condition holds. */
  static List<Table> tables(Dataset<Row> rows, Predicate<Table> condition) {
    return tables(((org.apache.spark.sql.classic.Dataset<Row>) rows).queryExecution(), condition);
  }

  /** The same of the query of the statement that this thread runs. */
  static List<Table> tablesOfStatement(Predicate<Table> condition) {
    String id = SparkSession.active().sparkContext().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    return tables(SQLExecution.getQueryExecution(Long.parseLong(id)), condition);
  }

  private static List<Table> tables(QueryExecution execution, Predicate<Table> condition) {
    return tables(execution.analyzed(), condition);
  }

  /** The same of a plan, which may be optimised. */
  static List<Table> tables(LogicalPlan plan, Predicate<Table> condition) {
    return new ArrayList<>(CollectionConverters.asJava(plan.collectWithSubqueries(new Tables(condition))));
  }

  private static final class Tables extends AbstractPartialFunction<LogicalPlan, Table> {
    private final transient Predicate<Table> condition;

    Tables(Predicate<Table> condition) {
      this.condition = condition;
    }

    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      return relation(node) != null && condition.test(relation(node).table());
    }

    @Override
    public Table apply(LogicalPlan node) {
      return relation(node).table();
    }

    private static DataSourceV2Relation relation(LogicalPlan node) {
      if (node instanceof DataSourceV2ScanRelation scan) {
        return scan.relation();
      }
      return node instanceof DataSourceV2Relation relation ? relation : null;
    }
  }
}
