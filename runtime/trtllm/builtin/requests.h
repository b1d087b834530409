// Which rows of a tensor are which request's: padded [requests, longest, width], where request b has the first
// last_token_ids[b] of its rows (all, if that is absent), or packed [tokens, width] with remove_input_padding, where it
// ends before row last_token_ids[b]. A request goes on from its state, but starts anew where host_request_types is 0.
#pragma once

#include "runtime/trtllm/builtin/floats.h"
#include "runtime/trtllm/builtin/graph_text.h"

namespace tscompile {

// Where plugins have the inputs that tell it; -1: the plugin has no such input.
struct RequestInputs {
  int x = 0, types = -1, last = -1, slots = -1;
};

struct RequestRows {
  int64_t first = 0, length = 0;  // rows of the tensor as [rows, width]
  int64_t room = 0;               // rows up to the next request; those past length belong to nobody
  int64_t slot = 0;               // of its state
  bool fresh = false;
};

// All of them; fails where the numbers cannot be. `slots`: how many states there are; each is of one request.
std::vector<RequestRows> readRequests(const tsc::Run& run, const RequestInputs& in, bool packed, int64_t slots);

// Sizes of the inputs of `in`: width of x, as many numbers of the others as there are requests.
void expectRequests(const tsc::Shapes& s, const RequestInputs& in, bool packed, int64_t width);

// The same in decompositions: all as padded [requests, longest, ..].
class RequestText {
 public:
  // `names` of inputs as the graph has them; empty for absent ones.
  RequestText(GraphText& g, bool packed, ValueText x, ValueText types, ValueText last, ValueText slots);

  ValueText padded(ValueText x);    // of the input's layout
  ValueText unpadded(ValueText y);  // back, with zeros where no request has a row
  // Of the requests: [requests, ..] from the states of all slots, zeros for those that start anew; and back.
  ValueText statesOf(ValueText all, int rank);
  ValueText statesBack(ValueText all, ValueText states, ValueText dtypeLike);
  ValueText lengths() const { return lengths_; }  // [requests]
  ValueText longest() const { return longest_; }
  ValueText count() const { return count_; }
  // Whether row s of requests is theirs: [requests, 1].
  ValueText isActive(ValueText s);

 private:
  // The same numbers, where each is from 0 to less than `count`, or to `most`: others are an error.
  ValueText below(ValueText numbers, ValueText count);
  ValueText upTo(ValueText numbers, ValueText most);

  GraphText& g_;
  bool packed_;
  ValueText types_, slots_, lengths_, starts_, ends_, longest_, count_, tokens_;
};

}  // namespace tscompile
