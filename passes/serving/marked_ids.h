// Ids that a model treats in a way of their own: ends of documents, padding, the beginning of a picture. Texts of
// random ids would hardly ever have them, and would not tell what they change.
#pragma once

#include "passes/rewrite/rewrite.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tscompile {

// Integers that the graph compares with ids, or with what is computed from ids, and ids that have rows of few, or of
// zeros, in a table; in the order in which they come up.
std::vector<int64_t> markedIds(const Graph& graph, const Value* ids, RewriteContext& context);

// Computes for all `words` ids the values that follow from one id alone and have few kinds (flags, classes, gates), and
// returns ids of each kind but the commonest. Needs an evaluator; what takes products of weights is left out.
std::vector<int64_t> toldIds(const Graph& graph, const Value* ids, int64_t words, RewriteContext& context);

// An id of a vocabulary of so many words; a third of them are marked ones, if there are any.
int32_t drawnId(uint64_t bits, int64_t words, const std::vector<int64_t>& marked);
// Which place a token has its id from, its own or an earlier one: a third of a text come again where there are so many
// words that none would at random. What counts the same id, or looks for it, shows nothing without.
size_t placeOfId(uint64_t bits, size_t at, int64_t words);
// One that is none of these, if there is any.
int32_t plainId(uint64_t bits, int64_t words, const std::vector<int64_t>& marked);

}  // namespace tscompile
