// Whether a model treats its inputs as what they are taken for: tried out, whatever its graph looks like.
#pragma once

#include "passes/serving/entrance.h"
#include "runtime/llm/tokens.h"

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tscompile {

// Runs the model with texts of a few tokens, and with inputs that tell what they are from what they are not. Reports
// what fits no texts of other lengths, logits that are no numbers, positions that are no numbers of tokens, and masks
// that hide others than those of 0.
using RunModel =
    std::function<Result<std::vector<IValue>>(const std::vector<IValue>& inputs, Diagnostics& diagnostics)>;
bool tryInputs(const RunModel& model, const Entrance& entrance, Diagnostics& diagnostics);

// Whether the logits of a text depend on the tokens that they should: on those before, on none behind.
class TextTrials {
 public:
  explicit TextTrials(RunModel model) : model_(std::move(model)) {}

  // Whether it runs with texts of several lengths.
  bool run(const Entrance& entrance) const;
  // Whether it takes [tokens, batch], of which those of [batch, tokens] do not depend on an earlier token.
  bool takesTokensFirst(const Entrance& entrance) const;
  // Whether what is kept for the next tokens is read, and a mask of places that is 1 where tokens are (its input; none:
  // "") hides none of them. Reports if not.
  bool showTokens(const Entrance& entrance, const std::string& mask, Diagnostics& diagnostics) const;
  // A model with caches that shows its tokens those after them says other things when it is given all of a text than
  // when they come one after the other, which may be what it is for: reported.
  bool areOfTexts(const Entrance& entrance, Diagnostics& diagnostics) const;
  // Whether the same model gives a text these logits with other tokens around it.
  bool givesTheSame(const TextTrials& other, const Entrance& entrance) const;
  // Whether each token of one text has logits, and those of the first one depend on no later token while those of the
  // last one depend on all.
  bool hidesLaterTokens(const Entrance& entrance) const;
  // Whether each token has numbers from 0 to 1 that are 1 together.
  bool givesProbabilities(const Entrance& entrance) const;

 private:
  std::vector<double> logitsOfToken(bool isFirst, std::span<const TokenId> ids, const Entrance& entrance) const;
  bool seesToken(size_t at, const Entrance& entrance, size_t tokens = 4) const;

  RunModel model_;
};

// "ones for %attention_mask and 0, 1, .. for %position_ids"; empty if there are ids alone.
std::string givenText(const Entrance& entrance);
// Reports an input that a model reads and gives back as it was given.
void reportUnchanged(const std::string& input, SourceRange place, Diagnostics& diagnostics);
// What a model that does not run is told of the inputs of its graph that were taken for caches.
std::string noteOfDropped(const Graph& graph, const Entrance& entrance);
// Hidden values of each token are taken for logits like any other numbers.
void warnOfWidth(int64_t given, int64_t words, SourceRange place, Diagnostics& diagnostics);
// Of a number that calls count on with, and that is not 0 in the file.
void warnOfCount(std::string_view name, SourceRange place, Diagnostics& diagnostics);
// Reports that the model itself gives logits that are no numbers.
void reportNoNumbers(const Entrance& entrance, int64_t tokens, Diagnostics& diagnostics);
// Reports that a program for texts of so many tokens, or for several texts, is none for one of them alone; 0: several.
void reportApart(const Entrance& entrance, int64_t filledTo, Diagnostics& diagnostics);
// Whether some of them are no numbers: infinities hide tokens.
bool hasNoNumbers(const Tensor& logits);

}  // namespace tscompile
