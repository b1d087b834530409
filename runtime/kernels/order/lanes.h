// What is done along one dimension of [outer][count][inner]: running sums, places of extremes, orders. Results do not
// depend on the number of threads. Workspaces are given by the caller.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tscompile {

struct LaneShape {
  int64_t outer = 1, count = 1, inner = 1;
  int64_t lanes() const { return outer * inner; }
};

// out[o][i][c] = the sum or product of in[o][0..i][c]. Of float in f64, of int64_t modulo 2^64. In may be float,
// double, int64_t, int32_t or bool, Out float, double or int64_t.
template <class In, class Out>
void runningTotal(bool isProduct, const LaneShape& shape, const In* in, Out* out, int threads);

// values[o][i][c] = the largest (smallest) of in[o][0..i][c], with its place: the last of equal ones; NaN stays. T is
// float, double or int64_t.
template <class T>
void runningExtremes(bool isLargest, const LaneShape& shape, const T* in, T* values, int64_t* places, int threads);

// out[o][i][c] = log of the sum of exp(in[o][0..i][c]), in f64.
void runningLogOfSum(const LaneShape& shape, const float* in, float* out, int threads);

// Of each lane the largest or smallest value and its place, the first of several; NaN wins, the first. Either result
// may be null.
size_t extremesWorkspace(const LaneShape& shape);
void extremes(bool isLargest, const LaneShape& shape, const float* in, float* values, int64_t* places, void* workspace,
              int threads);

// The same of integers. One of several equal ones is the first.
void extremes(bool isLargest, const LaneShape& shape, const int64_t* in, int64_t* values, int64_t* places, int threads);

// Of each lane the first `k` values, by size, and their places. Of equal values those that std::partial_sort and
// std::nth_element leave there, as PyTorch has them; NaN is larger than any number.
size_t firstOfLanesWorkspace(const LaneShape& shape, int64_t k);
void firstOfLanes(bool isLargest, bool isSorted, int64_t k, const LaneShape& shape, const float* in, float* values,
                  int64_t* places, void* workspace, int threads);

// Each lane in order, with the places of its values: equal ones in their order (`isStable`), or as std::sort leaves
// them. `values` may be null. Lanes have less than 2^32 elements.
size_t sortedLanesWorkspace(const LaneShape& shape);
void sortedLanes(bool isDescending, bool isStable, const LaneShape& shape, const float* in, float* values,
                 int64_t* places, void* workspace, int threads);

// The same of integers.
size_t sortedIntegersWorkspace(const LaneShape& shape);
void sortedLanes(bool isDescending, bool isStable, const LaneShape& shape, const int64_t* in, int64_t* values,
                 int64_t* places, void* workspace, int threads);

// Of each lane the lower of the two middle elements and its place, the first of equal ones. NaN, the first, if there is
// one; if it is skipped, that of the numbers, or any if there are none. `places` may be null.
size_t mediansOfLanesWorkspace(const LaneShape& shape);
void mediansOfLanes(bool skipsNan, const LaneShape& shape, const float* in, float* values, int64_t* places,
                    void* workspace, int threads);

}  // namespace tscompile
