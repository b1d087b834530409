#include "frontend/files/shared_parts.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

std::string nameOfWhole() { return "whole"; }

Tensor numbers(int64_t count) {
  Tensor t = Tensor::empty(DType::Float32, Dims{count});
  for (int64_t i = 0; i < count; ++i) t.data<float>()[i] = static_cast<float>(i);
  return t;
}

// What a reader of the file has, each tensor with memory of its own but for what metadata tells.
Weights readBack(const NamedTensors& tensors, const Metadata& metadata, Diagnostics& diagnostics) {
  Weights weights;
  for (const auto& [name, t] : tensors) {
    Tensor copy = Tensor::empty(t.dtype(), t.sizes());
    for (int64_t i = 0; i < t.numel(); ++i) copy.data<float>()[i] = static_cast<float>(t.real(i));
    weights.add(name, copy);
  }
  weights.addMetadata(metadata);
  restoreSharedMemory(weights, diagnostics);
  return weights;
}

std::string problem(const std::string& text) {
  Diagnostics diagnostics;
  readBack({{"a", numbers(4)}}, {{"memory:b", text}}, diagnostics);
  return diagnostics.list().empty() ? "" : diagnostics.list()[0].message;
}

TEST(SharedParts, OneMemoryIsWrittenOnce) {
  Tensor cache = numbers(8);
  NamedTensors tensors{{"k", cache.withGeometry(Dims{2, 2}, Dims{1, 2}, 0)},
                       {"cache", cache},
                       {"same", cache},
                       {"last", cache.withGeometry(Dims{}, Dims{}, 7)},
                       {"alone", numbers(2)}};
  Metadata metadata;
  Diagnostics diagnostics;
  ASSERT_TRUE(takeSharedMemory(tensors, tensors.size(), nameOfWhole, metadata, diagnostics));
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].first, "cache");
  EXPECT_EQ(metadata["memory:k"], "cache 0 2,2 1,2");
  EXPECT_EQ(metadata["memory:same"], "cache");
  EXPECT_EQ(metadata["memory:last"], "cache 7 - -");
  EXPECT_TRUE(tellsOfSharing(metadata));
  Weights weights = readBack(tensors, metadata, diagnostics);
  EXPECT_TRUE(diagnostics.list().empty());
  EXPECT_EQ(*weights.peek("same"), *weights.peek("cache"));
  weights.peek("cache")->data<float>()[1] = 9;
  EXPECT_EQ(weights.peek("k")->real(2), 9);  // row 1, column 0
  EXPECT_EQ(weights.peek("last")->real(0), 7);
}

TEST(SharedParts, MemoryThatNoTensorHasAllOf) {
  Tensor memory = numbers(6);
  NamedTensors tensors{{"left", memory.withGeometry(Dims{4}, Dims{1}, 0)},
                       {"right", memory.withGeometry(Dims{4}, Dims{1}, 2)}};
  Metadata metadata;
  Diagnostics diagnostics;
  ASSERT_TRUE(takeSharedMemory(tensors, tensors.size(), nameOfWhole, metadata, diagnostics));
  ASSERT_EQ(tensors.size(), 1u);
  EXPECT_EQ(tensors[0].first, "whole");
  EXPECT_EQ(metadata["memory:right"], "whole 2 4 1");
  Weights weights = readBack(tensors, metadata, diagnostics);
  weights.peek("left")->data<float>()[2] = 9;
  EXPECT_EQ(weights.peek("right")->real(0), 9);
}

TEST(SharedParts, PartsThatDoNotOverlapAreTheirOwn) {
  Tensor memory = numbers(4);
  NamedTensors tensors{{"a", memory.withGeometry(Dims{2}, Dims{1}, 0)},
                       {"b", memory.withGeometry(Dims{2}, Dims{1}, 2)}};
  Metadata metadata;
  Diagnostics diagnostics;
  ASSERT_TRUE(takeSharedMemory(tensors, tensors.size(), nameOfWhole, metadata, diagnostics));
  EXPECT_EQ(tensors.size(), 2u);
  EXPECT_FALSE(tellsOfSharing(metadata));
}

TEST(SharedParts, OtherDTypesAreRefused) {
  Tensor memory = numbers(4);
  NamedTensors tensors{{"a", memory}, {"b", Tensor::view(DType::Int32, memory.storage(), Dims{4}, Dims{1}, 0)}};
  Metadata metadata;
  Diagnostics diagnostics;
  EXPECT_FALSE(takeSharedMemory(tensors, tensors.size(), nameOfWhole, metadata, diagnostics));
  EXPECT_EQ(diagnostics.list()[0].message,
            "'a' and 'b' share memory, but are of different dtypes: files cannot say that");
}

TEST(SharedParts, FilesMayLie) {
  const std::string wrong = "the weights do not tell of which memory 'b' is a part";
  EXPECT_EQ(problem("a 0 2,2 2,1"), "");
  for (const char* text : {"", "c", "a 0 2,2", "a 1 2,2 2,1", "a -1 2 1", "a 0 2 -1", "a 0 2,2 1", "a x 2 1",
                           "a 0 9223372036854775807 9223372036854775807", "a 0 5 1"})
    EXPECT_EQ(problem(text), wrong) << text;
}

}  // namespace
}  // namespace tscompile::test
