package chronolake.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BloomFilterMightContain;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.expressions.objects.AssertNotNull;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeRows;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta;
import org.apache.spark.sql.catalyst.util.RowDeltaUtils;
import org.apache.spark.sql.connector.write.RowLevelOperation.Command;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.AppendDataExecV1;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegralType;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/**
 * Plans a MERGE that is an upsert as a write of its source: Spark joins nothing, and reads nothing of the
 * table.
 *
 * <p>That is one which matches by the whole record key, of a partitioned table by the partition too, and stores
 * the same row whether the record exists or not. All others stay with Spark, as does one whose source reads the
 * table itself: it must be of the state that its source has read.
 */
final class UpsertStrategy extends SparkStrategy {
  /** Lets a session plan so. Spark has a catalog for each session, and each one asks for it. */
  static void register(SparkSession session) {
    var experimental = ((org.apache.spark.sql.classic.SparkSession) session).experimental();
    synchronized (experimental) {
      List<SparkStrategy> strategies =
          new ArrayList<>(CollectionConverters.asJava(experimental.extraStrategies()));
      if (strategies.stream().noneMatch(each -> each instanceof UpsertStrategy)) {
        strategies.add(new UpsertStrategy());
        experimental.extraStrategies_$eq(seq(strategies));
      }
    }
  }

  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    if (plan instanceof WriteDelta write && write.operation() instanceof RowChanges changes
        && changes.command() == Command.MERGE && write.write().get() instanceof RowChanges.Builder builder) {
      LogicalPlan rows = rows(write.query(), changes.table());
      if (rows != null) {
        return seq(List.of(new AppendDataExecV1(
            changes.table(), rows, () -> forgetCached(write.originalTable()), builder.ofWholeRows())));
      }
    }
    return seq(List.of());
  }

  private static BoxedUnit forgetCached(Object table) {
    var session = (org.apache.spark.sql.classic.SparkSession) SparkSession.active();
    session.sharedState().cacheManager().recacheByPlan(session, (LogicalPlan) table);
    return BoxedUnit.UNIT;
  }

  /** The rows to upsert; null if the MERGE is no upsert. */
  private static LogicalPlan rows(LogicalPlan query, ChronolakeTable table) {
    if (!(query instanceof MergeRows merge) || !merge.notMatchedBySourceInstructions().isEmpty()
        || !(withoutProjects(merge.child()) instanceof Join join) || join.condition().isEmpty()) {
      return null;
    }
    List<Expression> matched = stored(merge.matchedInstructions(), RowDeltaUtils.UPDATE_OPERATION());
    List<Expression> inserted = stored(merge.notMatchedInstructions(), RowDeltaUtils.INSERT_OPERATION());
    Map<String, Same> same = same(join.condition().get(), join);
    String[] names = table.struct().fieldNames();
    // Beside the columns Spark has the record key, the partition path and the file name.
    if (matched == null || inserted == null || inserted.size() != names.length + 3 || same == null
        || !isWhole(join.left(), same)
        || !table.isFoundBy(same.keySet(), column -> same.get(column).isOfNulls())
        || readsTable(join.right(), table)) {
      return null;
    }
    List<NamedExpression> columns = new ArrayList<>();
    for (int i = 0; i < names.length; i++) {
      Expression value = inserted.get(i);
      Same key = same.get(names[i]);
      boolean isSame = key == null ? matched.get(i).semanticEquals(value)
                                   : unchecked(value).semanticEquals(key.source())
              && (matched.get(i).semanticEquals(value) || matched.get(i).semanticEquals(key.target()));
      if (!isSame || !value.deterministic() || SubqueryExpression.hasSubquery(value)
          || !value.references().subsetOf(join.right().outputSet())) {
        return null;
      }
      columns.add(new Alias(
          value, names[i], NamedExpression.newExprId(), seq(List.of()), Option.empty(), seq(List.of())));
    }
    LogicalPlan rows = new Project(seq(columns), join.right());
    // It is: Spark has optimised it already.
    rows.setAnalyzed();
    return rows;
  }

  /** The values that the one clause stores, without a condition; null if there are others. */
  private static List<Expression> stored(Seq<MergeRows.Instruction> clauses, int operation) {
    if (clauses.size() != 1 || !clauses.head().condition().equals(Literal.TrueLiteral())
        || clauses.head().outputs().size() != 1) {
      return null;
    }
    List<Expression> output = CollectionConverters.asJava(clauses.head().outputs().head());
    boolean isIt = output.get(0) instanceof Literal literal && literal.value().equals(operation);
    return isIt ? output.subList(1, output.size()) : null;
  }

  /** The value of a column that must not be null, without Spark's check. */
  private static Expression unchecked(Expression value) {
    return value instanceof AssertNotNull checked ? checked.child() : value;
  }

  /** A column of the table, and that of the source to which it is the same. */
  private record Same(AttributeReference target, AttributeReference source, boolean isOfNulls) {}

  /** The columns that the condition compares, by their names; null if it does anything else. */
  private static Map<String, Same> same(Expression condition, Join join) {
    if (condition instanceof And both) {
      Map<String, Same> left = same(both.left(), join);
      Map<String, Same> right = same(both.right(), join);
      if (left == null || right == null) {
        return null;
      }
      Map<String, Same> all = new HashMap<>(left);
      right.forEach(all::putIfAbsent);
      return all.size() == left.size() + right.size() ? all : null;
    }
    boolean isOfNulls = condition instanceof EqualNullSafe;
    if (!isOfNulls && !(condition instanceof EqualTo)) {
      return null;
    }
    if (!(condition.children().head() instanceof AttributeReference one)
        || !(condition.children().last() instanceof AttributeReference other)) {
      return null;
    }
    boolean isTargetFirst = join.left().outputSet().contains(one);
    AttributeReference target = isTargetFirst ? one : other;
    AttributeReference source = isTargetFirst ? other : one;
    if (!join.left().outputSet().contains(target) || !join.right().outputSet().contains(source)
        || !target.dataType().equals(source.dataType()) || !isExact(target.dataType())) {
      return null;
    }
    return Map.of(
        target.name(), new Same(target, source, isOfNulls || !source.nullable() || !target.nullable()));
  }

  /** Whether values of the type are equal in SQL only if they have the same text in a record key. */
  private static boolean isExact(DataType type) {
    return type instanceof IntegralType || type instanceof DecimalType || type instanceof DateType
        || type instanceof BooleanType || type.equals(DataTypes.StringType);
  }

  /**
   * Whether this is the whole table: no condition leaves records out, but that compared columns have values.
   */
  private static boolean isWhole(LogicalPlan table, Map<String, Same> same) {
    LogicalPlan plan = withoutProjects(table);
    if (!(plan instanceof Filter filter)) {
      return plan.children().isEmpty();
    }
    Set<Expression> compared = new HashSet<>();
    same.values().forEach(each -> compared.add(each.target().canonicalized()));
    return areValues(filter.condition(), compared) && isWhole(filter.child(), same);
  }

  private static boolean areValues(Expression condition, Set<Expression> compared) {
    if (condition instanceof And both) {
      return areValues(both.left(), compared) && areValues(both.right(), compared);
    }
    // Spark makes such a filter of the source's keys, where it reads a large table.
    return condition instanceof BloomFilterMightContain
        || (condition instanceof IsNotNull given && compared.contains(given.child().canonicalized()));
  }

  private static LogicalPlan withoutProjects(LogicalPlan plan) {
    return plan instanceof Project project ? withoutProjects(project.child()) : plan;
  }

  private static boolean readsTable(LogicalPlan source, ChronolakeTable table) {
    return !AnalysedPlans.tables(source, table::isReadAs).isEmpty();
  }

  private static <T> Seq<T> seq(List<T> list) {
    return CollectionConverters.asScala(list).toSeq();
  }
}
