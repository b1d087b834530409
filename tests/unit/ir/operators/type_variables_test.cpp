#include "ir/operators/schema.h"
#include "ir/values/type.h"

#include <gtest/gtest.h>

namespace tscompile::test {

TEST(TypeVariables, NamedTuplesKeepTheirNames) {
  const TypePtr variable = variableType("t");
  const TypePtr elements[] = {variable, types().integer}, bound[] = {types().tensor, types().integer};
  const TypePtr pair = namedTupleType("__torch__.Pair", elements, {"first", "count"}, {}),
                expected = namedTupleType("__torch__.Pair", bound, {"first", "count"}, {});
  EXPECT_EQ(substituteTypeVariables(listType(pair), {{"t", types().tensor}}), listType(expected));
  EXPECT_NE(substituteTypeVariables(pair, {{"t", types().tensor}}), tupleType(bound));
  EXPECT_EQ(substituteTypeVariables(dictType(variable, optionalType(variable)), {{"t", types().integer}}),
            dictType(types().integer, optionalType(types().integer)));
  EXPECT_EQ(substituteTypeVariables(pair, {{"u", types().tensor}}), nullptr);
}

}  // namespace tscompile::test
