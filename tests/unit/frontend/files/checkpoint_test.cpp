#include "frontend/files/checkpoint.h"

#include "frontend/files/weights_index.h"
#include "tests/support/files.h"

namespace tscompile {
namespace {

using test::dataFile;
using test::shown;
using test::TemporaryFolder;
using Names = std::vector<std::string>;

std::string archiveFile(std::string_view name) { return TSCOMPILE_TESTS_DIR "/data/archives/" + std::string(name); }

std::string tensorOf(Weights& w, std::string_view name) {
  Diagnostics d;
  const Tensor* t = w.find(name);
  return t ? shown(*t, d) : "none";
}

// {"model": {...}} answers without "model." as well, so what an earlier file has under such a name is in both.
TEST(Checkpoint, ItsBriefNamesAreTakenToo) {
  TemporaryFolder folder;
  Diagnostics d;
  ASSERT_TRUE(writeSafetensors(folder / "a.safetensors", {{"half", Tensor::zeros(DType::Float16, Dims{1})}}, d));
  Weights w;
  ASSERT_TRUE(w.addFile(folder / "a.safetensors", d));
  EXPECT_FALSE(w.addFile(archiveFile("checkpoint_2.pth"), d));
  EXPECT_NE(shown(d).find("error: tensor 'half' is also in a.safetensors\n"), std::string::npos) << shown(d);
}

TEST(Checkpoint, IsTheSameInEveryForm) {
  for (const char* file :
       {"checkpoint_1.pth", "checkpoint_2.pth", "legacy_1.pth", "protocol4_1.pth", "bigendian.pth"}) {
    SCOPED_TRACE(file);
    Diagnostics d;
    Weights w;
    ASSERT_TRUE(w.addFile(archiveFile(file), d)) << shown(d);
    EXPECT_EQ(w.names(), (Names{"model.embed.weight", "model.half", "model.head.weight", "model.rest", "model.steps",
                                "model.turned"}));
    EXPECT_EQ(tensorOf(w, "model.embed.weight"), "float32 [2, 3]: 0 1 2 3 4 5");
    EXPECT_EQ(tensorOf(w, "model.turned"), "int64 [3, 2]: 0 3 1 4 2 5");
    EXPECT_EQ(tensorOf(w, "model.half"), "float16 [1]: 1.5");
    EXPECT_EQ(tensorOf(w, "model.steps"), "int64 []: 7");
    EXPECT_EQ(tensorOf(w, "model.rest"), "int16 [3]: 7 8 9");
    EXPECT_EQ(w.find("model.embed.weight")->raw(), w.find("model.head.weight")->raw());
    EXPECT_TRUE(w.find("model.turned")->isContiguous());
    EXPECT_TRUE(w.find("model.turned")->storage()->readOnly());
  }
}

TEST(Checkpoint, TheOnlyDictWithTensorsMayBeLeftOut) {
  Diagnostics d;
  Weights w;
  ASSERT_TRUE(w.addFile(archiveFile("checkpoint_2.pth"), d)) << shown(d);
  EXPECT_EQ(tensorOf(w, "steps"), "int64 []: 7");
  EXPECT_TRUE(w.has("half"));
  EXPECT_EQ(w.peek("rest"), w.peek("model.rest"));
  EXPECT_EQ(w.fileOf("steps"), archiveFile("checkpoint_2.pth"));
  EXPECT_FALSE(w.has("weight"));
  EXPECT_EQ(w.unused(), (Names{"model.embed.weight", "model.half", "model.head.weight", "model.rest", "model.turned"}));
}

TEST(Checkpoint, KeysOfEveryKindAreNames) {
  Diagnostics d;
  Weights w;
  ASSERT_TRUE(w.addFile(archiveFile("keys_2.pth"), d)) << shown(d);
  EXPECT_EQ(w.names(), (Names{"('a', 1)", "()", "2.5", "None", "True", "old", "t.0.(None,)"}));
  EXPECT_EQ(tensorOf(w, "None"), "float32 [2]: 1 1");
}

// Of numpy and of PyTorch, whose storages are streams of their own in it.
TEST(Checkpoint, TensorsOfPicklesAreWeights) {
  Diagnostics d;
  Weights w, old;
  ASSERT_TRUE(w.addFile(archiveFile("pickle_2.pkl"), d)) << shown(d);
  EXPECT_EQ(tensorOf(w, "rows"), "float32 [2, 3]: 0 1 2 3 4 5");
  EXPECT_EQ(tensorOf(w, "turned"), "float32 [3, 2]: 0 3 1 4 2 5");
  EXPECT_EQ(tensorOf(w, "counts"), "int64 [3]: 0 1 2");
  EXPECT_EQ(tensorOf(w, "part"), "float32 [1]: 1");
  ASSERT_TRUE(old.addFile(archiveFile("pickle_2_protocol2.pkl"), d)) << shown(d);
  EXPECT_EQ(tensorOf(old, "w"), "float64 [2, 1]: 1 1");
  EXPECT_EQ(tensorOf(old, "half"), "float16 [1]: 1");
}

TEST(Checkpoint, APathChoosesWhatIsRead) {
  Diagnostics d;
  Weights model, optimizer, none;
  ASSERT_TRUE(model.addFile(archiveFile("legacy_1.pth") + "#model", d)) << shown(d);
  EXPECT_EQ(tensorOf(model, "embed.weight"), "float32 [2, 3]: 0 1 2 3 4 5");
  EXPECT_FALSE(model.has("model.embed.weight"));
  ASSERT_TRUE(optimizer.addFile(archiveFile("checkpoint_1.pth") + "#optimizer.state", d)) << shown(d);
  EXPECT_EQ(optimizer.names(), Names{"0.exp_avg"});
  EXPECT_FALSE(none.addFile(archiveFile("checkpoint_1.pth") + "#modle", d));
  EXPECT_TRUE(shown(d).ends_with("error: the file has nothing at 'modle'\n"));
  d.clear();
  EXPECT_FALSE(none.addFile(archiveFile("checkpoint_1.pth") + "#loss", d));
  EXPECT_TRUE(shown(d).ends_with("error: the checkpoint has no tensors\n"));
  d.clear();
  EXPECT_FALSE(none.addFile(dataFile("small.safetensors") + "#x", d));
  EXPECT_TRUE(shown(d).ends_with("error: the file has nothing at 'x'\n")) << shown(d);
}

// As wrappers write them, such as DataParallel: keys that begin with "module." in a dict without levels.
TEST(Checkpoint, APathMayBeginTheNames) {
  Diagnostics d;
  Weights whole, inner, none;
  const std::string recipe = archiveFile("module_1.pth") + "#1";
  ASSERT_TRUE(whole.addFile(recipe, d)) << shown(d);
  EXPECT_EQ(whole.names(), (Names{"bias", "num_batches_tracked", "running_mean", "running_var", "weight"}));
  ASSERT_TRUE(inner.addFile(archiveFile("wrapped_2.pth") + "#state_dict.model", d)) << shown(d);
  EXPECT_EQ(inner.names(), (Names{"0.bias", "0.weight"}));
  EXPECT_FALSE(none.addFile(archiveFile("wrapped_2.pth") + "#state_dict.model.2", d));
  EXPECT_TRUE(shown(d).ends_with("error: the file has nothing at 'state_dict.model.2'\n")) << shown(d);
}

// Nothing of them is executed, and nothing is said where nobody asks for them.
TEST(Checkpoint, ObjectsOfPythonAreNoWeights) {
  Diagnostics d;
  Weights w, inner, nothing;
  ASSERT_TRUE(w.addFile(archiveFile("evil.pth"), d)) << shown(d);
  EXPECT_EQ(w.names(), Names{"weight"});
  EXPECT_EQ(w.adviceFor("evil"),
            archiveFile("evil.pth") + " has 'evil': 'posix.system' is not on the list of what a pickle may ask for");
  ASSERT_TRUE(inner.addFile(archiveFile("evil.pth") + "#", d)) << shown(d);
  EXPECT_EQ(inner.names(), Names{"weight"});
  EXPECT_FALSE(nothing.addFile(archiveFile("evil.pth") + "#evil", d));
  EXPECT_TRUE(
      shown(d).ends_with("evil.pth: error: the checkpoint has no tensors\n"
                         "note: 'posix.system' is not on the list of what a pickle may ask for\n"))
      << shown(d);
  EXPECT_EQ(d.firstErrorKind(), ErrorKind::Unsupported);
  // A whole module of Python has its tensors where its state_dict() would have them.
  Weights module;
  ASSERT_TRUE(module.addFile(archiveFile("module_1.pth") + "#", d)) << shown(d);
  EXPECT_EQ(module.names(), (Names{"0.bias", "0.weight", "1.bias", "1.num_batches_tracked", "1.running_mean",
                                   "1.running_var", "1.weight"}));
}

TEST(Checkpoint, TorchScriptArchivesAreWeights) {
  Diagnostics d;
  Weights w;
  ASSERT_TRUE(w.addFile(archiveFile("script_1.pt"), d)) << shown(d);
  EXPECT_EQ(tensorOf(w, "second.weight"), "float32 [2, 2]: 0 1 2 3");
  EXPECT_EQ(tensorOf(w, "tensors.0"), "float32 [1]: 1");
  Weights quantized;
  EXPECT_FALSE(quantized.addFile(archiveFile("quantized_1.pt"), d));
  EXPECT_TRUE(shown(d).ends_with("tensor 'tensor': quantised tensors are not supported as weights\n")) << shown(d);
}

// Beside what is asked for: arrays, tensors of other kinds, the states of generators.
TEST(Checkpoint, OtherTensorsKeepNobodyFromTheWeights) {
  for (const char* file : {"mixed_1.pth", "mixed_2.pth"}) {
    SCOPED_TRACE(file);
    Diagnostics d;
    Weights w;
    ASSERT_TRUE(w.addFile(archiveFile(file), d)) << shown(d);
    EXPECT_EQ(tensorOf(w, "rows"), "float32 [2, 3]: 0 1 2 3 4 5");
    EXPECT_EQ(tensorOf(w, "columns"), "int64 [3, 2]: 0 3 1 4 2 5");
    EXPECT_EQ(tensorOf(w, "flags"), "bool [2]: 1 0");
    EXPECT_EQ(tensorOf(w, "one"), "float64 []: 2.5");
    EXPECT_EQ(tensorOf(w, "generator"), "uint8 [1]: 7");
    const std::string has = archiveFile(file) + " has 'model.";
    EXPECT_EQ(w.adviceFor("levels"), has + "levels': quantised tensors are not supported as weights");
    EXPECT_EQ(tensorOf(w, "turned"), "float32 [2, 3]: 0 1 2 3 4 5");
    EXPECT_NE(w.adviceFor("sparse").find("_rebuild_sparse_tensor' is not on the list"), std::string::npos);
    EXPECT_NE(w.adviceFor("parameter").find("_rebuild_sparse_tensor' is not on the list"), std::string::npos);
    EXPECT_EQ(w.adviceFor("nothing"), "");
  }
  Diagnostics d;
  Weights texts;
  ASSERT_TRUE(texts.addFile(archiveFile("texts_2.pth"), d)) << shown(d);
  EXPECT_EQ(texts.adviceFor("names"),
            archiveFile("texts_2.pth") + " has 'names': arrays of this dtype are not supported");
}

TEST(Checkpoint, DTypesThatAreNotComputedWithAreNamed) {
  Diagnostics d;
  Weights w;
  EXPECT_FALSE(w.addFile(archiveFile("complex32_2.pth"), d));
  EXPECT_TRUE(shown(d).ends_with("error: tensor 'ids': the dtype complex32 is not supported\n")) << shown(d);
}

TEST(Checkpoint, SmallFloatsAndUnsignedIntegersAreRead) {
  Diagnostics d;
  Weights w;
  ASSERT_TRUE(w.addFile(archiveFile("carried_2.pth"), d)) << shown(d);
  EXPECT_EQ(tensorOf(w, "uint16"), "uint16 [2]: 1 65535");
  EXPECT_EQ(tensorOf(w, "float8_e4m3fn"), "float8_e4m3fn [3]: 1 -448 0.015625");
  EXPECT_EQ(tensorOf(w, "float8_e5m2"), "float8_e5m2 [2]: 57344 inf");
}

TEST(Checkpoint, EveryPrefixIsRejected) {
  for (const char* file : {"legacy_1.pth", "checkpoint_1.pth"}) {
    std::string bytes = test::readText(archiveFile(file));
    for (size_t n = 0; n < bytes.size(); n += 5) {
      Diagnostics d;
      std::string prefix = bytes.substr(0, n);
      auto checkpoint = Checkpoint::read({prefix, "f"}, nullptr, true, d);
      EXPECT_FALSE(checkpoint) << file << n;
      EXPECT_TRUE(test::isWellFormed(checkpoint, d, n));
    }
  }
}

TEST(Checkpoint, EveryCorruptByteIsRejectedOrHarmless) {
  for (const char* file : {"legacy_1.pth", "checkpoint_1.pth"}) {
    std::string bytes = test::readText(archiveFile(file));
    for (size_t at = 0; at < bytes.size(); ++at)
      for (int value : {1, 7, 100, 255}) {
        std::string changed = bytes;
        changed[at] = static_cast<char>(changed[at] + value);
        Diagnostics d;
        auto checkpoint = Checkpoint::read({changed, "f"}, nullptr, true, d);
        EXPECT_TRUE(test::isWellFormed(checkpoint, d, bytes.size())) << file << at;
        if (checkpoint) (void)(*checkpoint)->tensors((*checkpoint)->root(), d);
      }
  }
}

// Containers that hold each other twice make 2^n names out of n dicts.
TEST(Checkpoint, SharedContainersAreNotWalkedWithoutEnd) {
  std::string pickle = "}";
  for (int i = 0; i < 60; ++i)
    pickle += std::string(
        "q\1"
        "0}(X\1\0\0\0ah\1X\1\0\0\0bh\1u",
        22);
  pickle += '.';  // which the tree shows
  Diagnostics d;
  auto tree = readPickle(pickle, {}, d);
  ASSERT_TRUE(tree) << shown(d);
  EXPECT_FALSE(namedTensors((*tree)->root(), "f", d, {.tensors = 1000}));
  EXPECT_EQ(d.firstErrorKind(), ErrorKind::Limit) << shown(d);
}

// ---- indices ----

std::string index(const std::string& map) { return "{\"metadata\": {\"total_size\": 3}, \"weight_map\": " + map + "}"; }

TEST(WeightsIndex, ReadsEachFileOnce) {
  TemporaryFolder folder;
  Diagnostics d;
  Tensor t = Tensor::zeros(DType::Float32, Dims{1});
  ASSERT_TRUE(writeSafetensors(folder / "1.safetensors", {{"a", t}, {"b", t}}, d));
  ASSERT_TRUE(writeSafetensors(folder / "2.safetensors", {{"c", t}}, d));
  auto add = [&](const std::string& text) {
    d.clear();
    Weights w;
    return w.addFile(folder.write("model.safetensors.index.json", text), d) ? std::to_string(w.names().size())
                                                                            : shown(d);
  };
  EXPECT_EQ(add(index(R"({"a": "1.safetensors", "b": "1.safetensors", "c": "2.safetensors"})")), "3");
  EXPECT_TRUE(add(index(R"({"a": "1.safetensors", "d": "2.safetensors"})")).find("tensor 'd' is not in ") !=
              std::string::npos);
  EXPECT_EQ(add(index(R"({"a": "../1.safetensors"})")),
            "model.safetensors.index.json: error: this is not an index of weights: '../1.safetensors' is not the name "
            "of a file beside it\n");
  EXPECT_EQ(add(index(R"({"a": "model.safetensors.index.json"})")),
            "model.safetensors.index.json: error: expected a file of weights, found a JSON text\n");
  EXPECT_EQ(add("{\"a\": 1}"),
            "model.safetensors.index.json: error: this is not an index of weights: it has no weight_map\n");
  EXPECT_EQ(
      add("{\"weight_map\": [\"x\"]}"),
      "model.safetensors.index.json: error: this is not an index of weights: weight_map is an object of strings\n");
  EXPECT_EQ(add(index(R"({"a": 1})")),
            "model.safetensors.index.json: error: this is not an index of weights: the name of a file is a string\n");
  EXPECT_NE(add("{\"weight_map\": {").find("it is not JSON at byte"), std::string::npos);
  EXPECT_NE(add(index(R"({"a": "3.safetensors"})")).find("3.safetensors: error: cannot read"), std::string::npos);
}

}  // namespace
}  // namespace tscompile
