// What the inputs of a language model stand for: what their names say, else what is done to them; and what they hold.
#pragma once

#include "passes/serving/entrance.h"
#include "passes/serving/small_instance.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

// What the name of an input says it is.
std::optional<ServingInput> roleByName(const Value* input);
std::optional<ServingInput> roleOfName(std::string_view name);

// The input of ids: that with such a name, else the first tensor whose name says nothing; null if there is none.
Value* idsOf(const Graph& graph);

// Whether it gives the number that a tensor of one holds.
bool makesNumber(Symbol kind);
// Whether it is the place of the first token of a call: a number, an int or a tensor of one, that is called so, or that
// places are counted or cut from.
bool isFirstPlace(const Value* input);
// Of such an input the place of the first token of a text, in its form: 0.
IValue firstPlaceOf(const Value* input);
// Whether it is added to the numbers of tokens, or they begin with it: what has a place for each token is not.
bool isCountedFrom(const Value* input);

// What an input's elements are used for, as far as that can be seen.
struct InputUse {
  bool isPlace = false;  // they turn by angles, choose rows of a table of positions, or are compared with each other
  bool choosesRows = false;  // of other tables, as ids do
  bool asksIfZero = false;   // as masks are
};
InputUse useOf(const Value* input, const SmallInstance& small, RewriteContext& context);

// For each input; a report if they are not ids once, and a mask and positions once at most.
std::optional<std::vector<ServingInput>> rolesOfInputs(const Graph& graph, RewriteContext& context);

// Lists, tuples and dicts of tensors, of any depth, that are only taken apart at places that the graph names become an
// input for each tensor. The new inputs are last, in the order of what held them, with the types that `formOf` gives.
// Returns the keys of those that dicts held.
std::map<const Value*, std::string> takeInputsApart(Graph& graph, const std::function<TypePtr(const Value*)>& formOf);

// A tensor of such an input, which may be taken several times, and its key if a dict holds it.
struct InputPart {
  std::string key;
  std::vector<Value*> taken;
};
// In the order of the inputs that takeInputsApart() makes of them; empty if the input is used otherwise.
std::vector<InputPart> partsOfInput(const Value* input);

// A tensor that a graph returns, by itself or in tuples, lists and dicts, and its key in the innermost of these.
struct ReturnedTensor {
  Value* value;
  std::string key;
};
// In the order of the graph; containers that it does not make itself are passed over.
std::vector<ReturnedTensor> returnedTensors(const Graph& graph);
// Whether both are tensors of one dtype and the same sizes, those that are open alike.
bool haveOneForm(const Value* a, const Value* b);

}  // namespace tscompile
