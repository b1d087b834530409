// Options from files and from the environment, and what the tool says where it fails itself.
#include "tests/support/cli.h"
#include "tests/support/json.h"
#include "tests/support/text_file.h"
#include "tools/options/options.h"
#include "tools/reports/crash_report.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace tscompile::test {
namespace {

const std::string kFrozen = TSCOMPILE_SOURCE_DIR "/samples/models/lenet_scripted/frozen.ir";
const std::string kArchive = TSCOMPILE_SOURCE_DIR "/samples/models/lenet_archive/model.pt";

size_t segments(const std::vector<std::string>& args) { return parseJson(runCli(args).out)["segments"].size(); }

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(ResponseFile, StandsForItsWords) {
  TemporaryFolder folder;
  const std::string options =
      folder.write("options.txt", "# what is left out\n--torch-executed-op 'aten::relu'\n--format \"json\"\n");
  EXPECT_GT(segments({"partition", "@" + options, kFrozen}), 1u);
  EXPECT_EQ(segments({"partition", kFrozen, "--format", "json"}), 1u);
  const CliResult missing = runCli({"partition", "@" + folder.path() + "/none", kFrozen});
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.err.find("cannot be read"), std::string::npos);
}

TEST(ResponseFile, MayNameTheCommand) {
  TemporaryFolder folder;
  const std::string call = folder.write("call.txt", std::string("partition ") + kFrozen + "\n--format json\n");
  EXPECT_EQ(segments({"@" + call}), 1u);
  EXPECT_GT(segments({"@" + call, "--torch-executed-op", "aten::relu"}), 1u);
  EXPECT_EQ(runCli({"@" + folder.path() + "/none"}).code, 2);
  EXPECT_EQ(runCli({"@" + folder.write("itself.txt", "@itself.txt")}).code, 2);
}

TEST(ResponseFile, AMistakeInItIsNotPassedOver) {
  TemporaryFolder folder;
  const CliResult open = runCli({"inspect", "@" + folder.write("open.txt", std::string(kFrozen) + "\n--format 'json")});
  EXPECT_EQ(open.code, 2);
  EXPECT_NE(open.err.find("open.txt:2:10: error: the quotation is not closed"), std::string::npos) << open.err;
  folder.write("more.txt", kFrozen);
  for (const std::string& words : {"@" + folder.path() + "/more.txt", "inspect @" + folder.path() + "/more.txt"}) {
    const std::string file = "@" + folder.write("names.txt", words);
    const CliResult nested = words[0] == '@' ? runCli({"inspect", file}) : runCli({file});
    EXPECT_EQ(nested.code, 2);
    EXPECT_NE(nested.err.find("a file of options may not name another one"), std::string::npos) << nested.err;
  }
}

TEST(ResponseFile, ValuesOfOptionsAreNone) {
  TemporaryFolder folder;
  // --expect takes @FILE as a value.
  const CliResult r = runCli({"run", kArchive, "-i", "1x1x32x32:f32:ones", "--expect",
                              "@" + std::string(TSCOMPILE_SOURCE_DIR "/samples/models/lenet_archive/expected/0.npy")});
  EXPECT_NE(r.out.find("FAILED"), std::string::npos) << r.err;
}

TEST(Environment, SaysOptionsThatTheCommandLineDoesNot) {
  Variable variable("TSCOMPILE_TORCH_EXECUTED_OP", "aten::relu");
  EXPECT_GT(segments({"partition", kFrozen, "--format", "json"}), 1u);
  EXPECT_EQ(segments({"partition", kFrozen, "--format", "json", "--torch-executed-op", "aten::conv2d"}),
            segments({"partition", kFrozen, "--format", "json", "--torch-executed-op=aten::conv2d"}));
  Variable bad("TSCOMPILE_MIN_BLOCK_SIZE", "many");
  const CliResult refused = runCli({"partition", kFrozen});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("the variable TSCOMPILE_MIN_BLOCK_SIZE says so"), std::string::npos) << refused.err;
}

// Also of options whose value may be left out, and by each of an option's long names.
TEST(Environment, VariablesOfEveryOption) {
  TemporaryFolder folder;
  const std::vector<std::string> words = {"compile",    kArchive, "--torch-executed-op",
                                          "aten::relu", "-o",     folder / "x.tse"};
  {
    Variable whole("TSCOMPILE_REQUIRE_FULL", "100");
    EXPECT_EQ(runCli(words).code, 4);
  }
  {
    Variable whole("TSCOMPILE_REQUIRE_FULL", "false");
    EXPECT_EQ(runCli(words).code, 0);
  }
  Variable library("TSCOMPILE_CUSTOM_TORCH_OPS", "/nowhere/lib.so");
  EXPECT_NE(runCli({"ops", kFrozen}).err.find("/nowhere/lib.so"), std::string::npos);
}

TEST(Environment, AVariableOfAFlagThatIsNeitherOnNorOffIsNamed) {
  Variable variable("TSCOMPILE_VERBOSE", "maybe");
  const CliResult refused = runCli({"version"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("the variable TSCOMPILE_VERBOSE takes true or false, not 'maybe'"), std::string::npos)
      << refused.err;
}

// Places that cannot be written are told before the work, which may be long.
TEST(Output, OptionsSayWhatTheyWrite) {
  size_t count = 0;
  for (const VerbSpec& verb : verbSpecs())
    for (const OptionSpec& option : verb.options) {
      const std::string name = namesOf(option).back();
      if (option.value.empty()) continue;
      const bool isOutput = name == "--output" || name == "--outputs" || name == "--trace" || name == "--timing-cache";
      EXPECT_EQ(option.written != Written::Nothing, isOutput) << verb.name << ' ' << name;
      if (!isOutput || option.written == Written::Cache) continue;
      ++count;
      const std::string place = "/dev/null/there";
      std::vector<std::string> words{std::string(verb.name), "nowhere", name, place};
      if (name == "--output" && verb.name == "refit") words.insert(words.end(), {"-w", "nowhere"});
      const CliResult r = runCli(words);
      EXPECT_EQ(r.code, 5) << verb.name << r.err;
      EXPECT_NE(r.err.find(place + ": error: "), std::string::npos) << r.err;
    }
  EXPECT_GE(count, 12u);
}

TEST(Help, StandsInTheDocumentOfAllCommands) {
  const std::string document = readText(TSCOMPILE_SOURCE_DIR "/docs/cli.md");
  for (const VerbSpec& verb : verbSpecs()) {
    const std::string call = "\n$ tscompile help" + (verb.name == "help" ? "" : " " + std::string(verb.name)) + "\n";
    EXPECT_NE(document.find(call), std::string::npos) << verb.name;
  }
}

TEST(Bench, TheExampleOfAnInputHasSizesThatTheModelTakes) {
  EXPECT_NE(runCli({"bench", kArchive}).err.find("--shape x=1x1x32x32:f32"), std::string::npos);
}

TEST(Bench, ModelsOfOtherInputsAreToldSo) {
  TemporaryFolder folder;
  auto compiled = [&](const std::string& sizes) {
    const std::string path = folder / (sizes + ".tse");
    EXPECT_EQ(runCli({"compile", kArchive, "--shape", sizes, "-o", path}).code, 0);
    return path;
  };
  const std::string one = compiled("1x1x32x32"), two = compiled("2x1x32x32");
  auto resultOf = [&](const std::string& model) {
    const CliResult r =
        runCli({"bench", model, "--against", two, "--duration", "20ms", "--threads", "1", "--format", "json"});
    EXPECT_EQ(r.code, 0) << r.err;
    const Json json = parseJson(r.out);
    return json["results"].size() ? json["results"][0] : Json();
  };
  auto tells = [](const Json& result) {
    bool any = false;
    for (const Json& warning : result["warnings"].items)
      any |= warning.text.starts_with("the models take different inputs");
    return any;
  };
  const Json other = resultOf(one);
  EXPECT_TRUE(tells(other));
  EXPECT_EQ(other["against"]["verdict"].text, "different inputs");
  ASSERT_EQ(other["against"]["inputs"].size(), 1u);
  EXPECT_EQ(other["against"]["inputs"][0].text, "x=2x1x32x32:float32");
  const Json same = resultOf(two);
  EXPECT_FALSE(tells(same));
  EXPECT_NE(same["against"]["verdict"].text, "different inputs");
}

TEST(Run, EngineFilesTellWhatIsInThemAndComeFromFilesOnly) {
  TemporaryFolder folder;
  const std::string engine = folder / "lenet.tse";
  ASSERT_EQ(
      runCli({"compile", kArchive, "--shape", "1x1x32x32", "--torch-executed-op", "aten::flatten", "-o", engine}).code,
      0);
  const std::string err = runCli({"run", engine, "-i", "1x1x32x32:f32:ones", "-v"}).err;
  EXPECT_EQ(err, "tscompile: note: 11 of 12 nodes in 2 engines, 3 segments\n");
  const CliResult piped = runCli({"run", "-"}, readText(engine));
  EXPECT_EQ(piped.code, 3);
  EXPECT_NE(piped.err.find("other models do not come through pipes"), std::string::npos) << piped.err;
}

TEST(Environment, NamesThatAreNearlyThoseOfOptionsAreTold) {
  const std::pair<const char*, const char*> names[] = {{"TSCOMPILE_LIMIT_MEMORY", "TSCOMPILE_LIMIT_MEM"},
                                                       {"TSCOMPILE_LIMT_TIME", "TSCOMPILE_LIMIT_TIME"}};
  for (const auto& [wrong, meant] : names) {
    Variable variable(wrong, "1");
    const std::string err = runCli({"parse", kFrozen}).err;
    EXPECT_NE(err.find("the variable " + std::string(wrong) + " is none of an option; did you mean " + meant + "?"),
              std::string::npos)
        << err;
    EXPECT_EQ(runCli({"parse", kFrozen, "-q"}).err, "");
  }
  Variable other("TSCOMPILE_SOMETHING_ELSE", "1"), ofAnother("TSCOMPILE_CONCURRENCY", "1");
  EXPECT_EQ(runCli({"parse", kFrozen}).err, "");
}

TEST(DefaultsFile, SaysOptionsThatNothingElseDoes) {
  TemporaryFolder folder;
  const std::string file = folder.write("d.toml",
                                        "format = 'json'\n[partition]\ntorch_executed_op = [\"aten::relu\"]\n"
                                        "[run]\nthreads = 2\n");
  EXPECT_GT(segments({"partition", kFrozen, "--defaults", file}), 1u);
  EXPECT_EQ(segments({"partition", kFrozen, "--format", "json"}), 1u);
  // A table is for its command, the command line comes first, and the environment before the file.
  EXPECT_NE(runCli({"partition", kFrozen, "--defaults", file, "--format", "text"}).out.find("graph("),
            std::string::npos);
  Variable variable("TSCOMPILE_TORCH_EXECUTED_OP", "aten::flatten");
  EXPECT_EQ(segments({"partition", kFrozen, "--defaults", file}),
            segments({"partition", kFrozen, "--format", "json", "--torch-executed-op", "aten::flatten"}));
  Variable place("TSCOMPILE_DEFAULTS", file.c_str());
  EXPECT_NE(runCli({"run", "--print-defaults"}).out.find("threads = 2"), std::string::npos);
}

TEST(DefaultsFile, FaultsHaveTheirPlace) {
  TemporaryFolder folder;
  auto fault = [&](const std::string& text) {
    const CliResult r = runCli({"run", kFrozen, "--defaults", folder.write("d.toml", text)});
    EXPECT_EQ(r.code, 2) << text;
    return r.err;
  };
  EXPECT_NE(fault("quiet = true\n[run]\nthreds = 3\n").find("d.toml:3:1: error: run has no option '--threds'"),
            std::string::npos);
  EXPECT_NE(fault("[run]\nthreds = 3\n").find("did you mean 'threads'?"), std::string::npos);
  EXPECT_NE(fault("\xc3\xa9 = 3").find("d.toml:1:1: error: "), std::string::npos);
  EXPECT_NE(fault("'\xc3\xa9' = 3").find("no command has an option"), std::string::npos);
  // What lies between the white space of other languages.
  for (const char* other : {"\xc2\xa1", "\xd2\x99", "\xe3\x80\x81", "\xef\xbb\xbe"})
    EXPECT_NE(fault(std::string(other) + " = 3").find("d.toml:1:1: error: "), std::string::npos) << other;
  EXPECT_NE(fault("[rum]\n").find("d.toml:1:2: error: there is no command 'rum'"), std::string::npos);
  EXPECT_NE(fault("[{v").find("d.toml:1:2: error: expected bare key"), std::string::npos);
  EXPECT_NE(fault("threads = 'many'").find("d.toml:1:11: error: --threads takes"), std::string::npos);
  EXPECT_NE(fault("threads = [1, 2]").find("threads takes one value"), std::string::npos);
  EXPECT_NE(fault("quiet = 1").find("quiet takes true or false"), std::string::npos);
  EXPECT_NE(fault("seed = 1979-05-27").find("seed takes a text or a number"), std::string::npos);
  EXPECT_NE(fault("seed = " + std::string(10000, '[')).find("d.toml:1:"), std::string::npos);
  EXPECT_NE(fault("min-block-size = 1\nmin_block_size = 2").find("min_block_size is there twice"), std::string::npos);
  EXPECT_NE(fault("defaults = 'x'").find("no command has an option '--defaults'"), std::string::npos);
  EXPECT_NE(runCli({"run", kFrozen, "--defaults", folder.path() + "/none"}).err.find("cannot be read"),
            std::string::npos);
}

TEST(DefaultsFile, WhatIsPrintedSaysTheSameAgain) {
  TemporaryFolder folder;
  const std::vector<std::string> words = {"partition",           "--shape",           "x.1=1x1x32x32",
                                          "--torch-executed-op", "a\"\x7f\n",         "--torch-executed-op",
                                          "aten::relu",          "--require-full=90", "-q"};
  std::vector<std::string> printing = words;
  printing.emplace_back("--print-defaults");
  const std::string first = runCli(printing).out;
  const std::string file = folder.write("d.toml", first);
  EXPECT_EQ(runCli({"partition", "--defaults", file, "--print-defaults"}).out, first);
  EXPECT_NE(first.find("\nrequire-full = 90\n"), std::string::npos) << first;
  // What is not said is there as a comment; all of it can be read.
  std::string all;
  std::istringstream lines(runCli({"partition", "--print-defaults"}).out);
  for (std::string line; std::getline(lines, line);)
    all += line.starts_with("# ") && line.find(" = ") != std::string::npos ? line.substr(2) + "\n" : line + "\n";
  const CliResult r = runCli({"partition", kFrozen, "--defaults", folder.write("all.toml", all)});
  EXPECT_NE(r.err.find("all.toml:"), std::string::npos) << r.err;
  EXPECT_EQ(r.err.find("has no option"), std::string::npos) << r.err;
}

TEST(Compile, KeepsWhatInputsAreThatACallerLeavesOut) {
  TemporaryFolder folder;
  const std::string archive = TSCOMPILE_TESTS_DIR "/data/archives/defaults_1.pt", engine = folder / "e.tse";
  ASSERT_EQ(runCli({"compile", archive, "--shape", "x=1..4x3", "-o", engine}).code, 0);
  const CliResult r = runCli({"run", engine, "--input", "2x3:f32:arange", "--print"});
  EXPECT_EQ(r.out, runCli({"run", archive, "--input", "2x3:f32:arange", "--print"}).out) << r.err;
  EXPECT_NE(runCli({"inspect", engine}).out.find("%scale=2"), std::string::npos);
}

TEST(Run, ForgottenWeightsAreOneSentence) {
  TemporaryFolder folder;
  const std::string samples = TSCOMPILE_SOURCE_DIR "/samples/models/";
  auto expectOne = [](std::vector<std::string> args, const std::string& count) {
    const std::string err = runCli(args).err;
    EXPECT_NE(err.find("the text names " + count + " tensors without their data, and no weights were given"),
              std::string::npos)
        << err;
    EXPECT_EQ(err.find("was not supplied"), std::string::npos) << err;
    EXPECT_EQ(err.find("not part of the text"), std::string::npos) << err;
  };
  // It reads numbers of the module as well.
  expectOne({"run", samples + "loops/model.ir", "-i", "0=3:i64=[1 5 7]", "-i", "1=0.7"}, "7");
  for (const char* command : {"run", "bench", "profile", "verify", "report", "compile"})
    for (const auto& [file, count] : {std::pair("model.ir", "10"), std::pair("frozen.ir", "8")}) {
      std::vector<std::string> args{command, samples + "lenet_scripted/" + file, "--shape", "1x1x32x32"};
      if (args[0] == "report" || args[0] == "compile") args.insert(args.end(), {"-o", folder / "out"});
      expectOne(args, count);
    }
}

TEST(Environment, AlsoSaysHowTheCommandLineIsRefused) {
  Variable variable("TSCOMPILE_ERROR_FORMAT", "json");
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"rn"}, {"run", kFrozen, "--inptu", "1"}, {"run", kFrozen, "--limit-mem", "much"}}) {
    const std::string err = runCli(args).err;
    EXPECT_TRUE(err.starts_with("{\"schema\": \"tscompile.diagnostic/1\"")) << err;
  }
  EXPECT_TRUE(runCli({"rn", "--error-format", "text"}).err.starts_with("tscompile: error: "));
}

TEST(Shape, WhatNeedsIntegersIsTold) {
  TemporaryFolder folder;
  const std::string model = folder.write("m.ir",
                                         "graph(%ids : Tensor, %table : Tensor):\n"
                                         "  %m1 : int = prim::Constant[value=-1]()\n"
                                         "  %false : bool = prim::Constant[value=0]()\n"
                                         "  %y : Tensor = aten::embedding(%table, %ids, %m1, %false, %false)\n"
                                         "  return (%y)\n");
  for (const char* command : {"run", "bench", "verify", "profile"}) {
    const std::string err = runCli({command, model, "--shape", "ids=1x4", "--shape", "table=9x2"}).err;
    EXPECT_NE(err.find("no dtype was said for %ids, so it is float32; ids=1x4:i64 says one"), std::string::npos)
        << command << ": " << err;
    EXPECT_EQ(err.find("no dtype was said for %table"), std::string::npos) << err;
  }
  const std::string masked = folder.write("masked.ir",
                                          "graph(%x : Tensor, %mask : Tensor):\n"
                                          "  %0 : float = prim::Constant[value=0.]()\n"
                                          "  %y : Tensor = aten::masked_fill(%x, %mask, %0)\n"
                                          "  return (%y)\n");
  const std::string err =
      runCli({"compile", masked, "--shape", "x=2x4", "--shape", "mask=2x4", "-o", folder.path() + "/m.tse"}).err;
  EXPECT_NE(err.find("no dtype was said for %mask, so it is float32; mask=2x4:bool says one"), std::string::npos)
      << err;
}

TEST(Inspect, AFolderOfTransformersIsNamed) {
  TemporaryFolder folder;
  folder.write("config.json", R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama"})");
  const std::string path = folder.path();
  const CliResult r = runCli({"inspect", path});
  EXPECT_EQ(r.code, 3);
  EXPECT_NE(r.err.find("this is the config.json of LlamaForCausalLM of transformers"), std::string::npos) << r.err;
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"run", path}, {"build", path, "-o", folder / "out"}})
    EXPECT_NE(runCli(args).err.find("docs/language_models.md"), std::string::npos) << args[0];
}

TEST(CrashReport, HoldsTextsAndNoWeights) {
  TemporaryFolder folder;
  Variable place("TMPDIR", folder.path().c_str());
  const std::string text = folder.write("model.ir", "graph(%x : Tensor):\n  return (%x)\n");
  const std::string weights = TSCOMPILE_SOURCE_DIR "/samples/models/lenet_scripted/weights.safetensors";
  rememberCommandLine(std::vector<std::string>{"run", text, "-w", weights, "-i", "x=3"});
  const std::string path = writeCrashReport("a check failed");
  ASSERT_TRUE(path.starts_with(folder.path())) << path;
  const std::string report = readText(path);
  EXPECT_TRUE(report.starts_with("a check failed\ntscompile "));
  EXPECT_NE(report.find("tscompile \"run\""), std::string::npos);
  EXPECT_NE(report.find("graph(%x : Tensor):"), std::string::npos);
  EXPECT_NE(report.find("weights.safetensors: "), std::string::npos);
  EXPECT_LT(report.size(), 2000u);
}

TEST(Color, IsForTerminalsThatShowIt) {
  const std::vector<std::string> bad = {"parse", TSCOMPILE_TESTS_DIR "/golden/parse/bad_json_errors.ir"};
  EXPECT_EQ(runCli(bad).err.find('\x1b'), std::string::npos);
  Variable force("CLICOLOR_FORCE", "1");
  EXPECT_NE(runCli(bad).err.find('\x1b'), std::string::npos);
  Variable none("NO_COLOR", "1");
  EXPECT_EQ(runCli(bad).err.find('\x1b'), std::string::npos);
}

TEST(Expect, ComparesWithFoldersAndFiles) {
  TemporaryFolder folder;
  const std::string out = folder / "out";
  const std::vector<std::string> run = {"run", kArchive, "-i", "1x1x32x32:f32:randn(seed=3)"};
  auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> args = run;
    args.insert(args.end(), more.begin(), more.end());
    return runCli(args);
  };
  ASSERT_EQ(with({"--outputs", out}).code, 0);
  const CliResult same = with({"--expect", out});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_EQ(same.out, "output 0: largest difference 0, within rtol 0.001, atol 0.0001\n  ulps  0: 100.0 %\nPASSED\n");
  // The interpreter differs in the last digits.
  const CliResult strict = with({"--expect", out, "--executor", "interpreter", "--rtol", "0", "--atol", "0=0"});
  EXPECT_EQ(strict.code, 1);
  EXPECT_NE(strict.out.find("FAILED\n"), std::string::npos) << strict.out;
  EXPECT_EQ(with({"--expect", out, "--executor", "interpreter", "--rtol", "0", "--atol", "0=1e-3"}).code, 0);
  EXPECT_EQ(with({"--expect", "0=@" + out + "/0.npy"}).code, 0);
  EXPECT_EQ(with({"--expect", "1=@" + out + "/0.npy"}).code, 2);
  EXPECT_EQ(with({"--expect", "@" + out + "/none.npy"}).code, 5);
  EXPECT_EQ(with({"--expect", "[1, 2]"}).code, 1);
  EXPECT_EQ(runCli({"verify", kArchive, "-i", "1x1x32x32:f32:randn(seed=3)", "--expect", out}).code, 0);
}

TEST(Expect, ItemsOfWhatIsReturnedHaveNames) {
  TemporaryFolder folder;
  auto model = [&](const std::string& last, const std::string& type) {
    return folder.write("m.ir",
                        "graph(%x : Tensor):\n  %k : str = prim::Constant[value=\"half\"]()\n"
                        "  %d : str = prim::Constant[value=\"double\"]()\n  %z : Tensor = aten::add(%x, %x, %one)\n"
                        "  %r : " +
                            type + " = " + last + "\n  return (%r)\n");
  };
  auto withOne = [](std::string path) {
    std::string text = readText(path);
    text.insert(text.find("  %z"), "  %one : int = prim::Constant[value=1]()\n");
    writeText(path, text);
    return path;
  };
  const std::string dict = withOne(model("prim::DictConstruct(%k, %x, %d, %z)", "Dict(str, Tensor)"));
  auto run = [&](const std::string& expected) {
    return runCli({"run", dict, "-i", "2:f32=[1 2]", "--expect", expected});
  };
  EXPECT_EQ(run("double=2:f32=[2 4]").code, 0);
  EXPECT_EQ(run("half=2:f32=[2 4]").code, 1);
  EXPECT_NE(run("haf=2:f32=[2 4]").err.find("half, double"), std::string::npos);
  const std::string tuple = withOne(model("prim::TupleConstruct(%x, %z)", "(Tensor, Tensor)"));
  EXPECT_EQ(runCli({"run", tuple, "-i", "2:f32=[1 2]", "--expect", "1=2:f32=[2 4]"}).code, 0);
  EXPECT_EQ(runCli({"run", tuple, "-i", "2:f32=[1 2]", "--expect", "0=2:f32=[2 4]"}).code, 1);
  EXPECT_EQ(runCli({"run", tuple, "-i", "2:f32=[1 2]", "--expect", folder / "missing"}).code, 5);
  EXPECT_EQ(runCli({"run", tuple, "-i", "2:f32=[1 2]", "--expect", "missing"}).code, 5);
}

TEST(Names, TheOnlyInputThatIsNeededHasNone) {
  TemporaryFolder folder;
  const std::string text = folder.write("m.ir",
                                        "graph(%x.1 : Tensor, %bias.1 : Tensor?):\n  %y : Tensor = aten::relu(%x.1)\n"
                                        "  return (%y)\n");
  EXPECT_EQ(runCli({"run", text, "-i", "2:f32=[1 2]"}).code, 0);
  const std::string both =
      folder.write("b.ir",
                   "graph(%x : Tensor, %i : Long(*, 3)):\n  %y : Tensor = aten::expand_as(%x, %i)\n"
                   "  return (%y)\n");
  EXPECT_NE(runCli({"run", both, "-i", "2:f32=[1 2]"}).err.find("no value was given for input %i"), std::string::npos);
  EXPECT_NE(runCli({"run", both}).err.find("--shape i=1x3:i64"), std::string::npos) << runCli({"run", both}).err;
}

TEST(Verify, CompilesAsARunDoes) {
  TemporaryFolder folder;
  // Two engines around a condition that None decides.
  const std::string text = folder.write(
      "m.ir",
      "graph(%x : Tensor, %m : Tensor?):\n  %n : NoneType = prim::Constant()\n  %a : Tensor = aten::relu(%x)\n"
      "  %b : Tensor = aten::tanh(%a)\n  %c : Tensor = aten::neg(%b)\n  %is : bool = aten::__isnot__(%m, %n)\n"
      "  %d : Tensor = prim::If(%is)\n    block0():\n      %u : Tensor = prim::unchecked_cast(%m)\n"
      "      %e : Tensor = aten::mul(%c, %u)\n      -> (%e)\n    block1():\n      -> (%c)\n"
      "  %f : Tensor = aten::exp(%d)\n  %g : Tensor = aten::sin(%f)\n  %h : Tensor = aten::cos(%g)\n  return (%h)\n");
  const CliResult r = runCli({"verify", text, "-i", "x=2x3:f32:randn", "--format", "json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json json = parseJson(r.out);
  ASSERT_EQ(json["engines"].items.size(), 1u) << r.out;
  EXPECT_EQ(json["engines"][0]["nodes"].number, 6);
}

TEST(Expect, TextsAndNumbersCountAsWell) {
  TemporaryFolder folder;
  const std::string text = folder.write("n.ir",
                                        "graph(%n : int):\n  %two : int = prim::Constant[value=2]()\n"
                                        "  %m : int = aten::mul(%n, %two)\n  return (%m)\n");
  ASSERT_EQ(runCli({"run", text, "-i", "n=3", "--outputs", folder / "out"}).code, 0);
  EXPECT_EQ(runCli({"run", text, "-i", "3", "--expect", folder / "out"}).code, 0);
  EXPECT_EQ(runCli({"run", text, "-i", "n=4", "--expect", folder / "out"}).code, 1);
}

TEST(Names, SizesThatAreProposedFollowFromTheInputsThatWereGiven) {
  const std::string program = TSCOMPILE_TESTS_DIR "/data/exports/derived.pt2";  // %x : [4*n, 3], %y : [4*n + 1]
  const std::string err = runCli({"run", program, "-i", "x=8x3:f32:ones"}).err;
  EXPECT_NE(err.find("--shape y=9\n"), std::string::npos) << err;
}

TEST(Names, SizesMayBeSaidByPosition) {
  const std::vector<std::string> base = {"partition", kArchive, "--format", "json", "--shape"};
  std::string first;
  for (const char* shape : {"x=1x1x32x32", "0=1x1x32x32", "1x1x32x32", "%x=1x1x32x32"}) {
    std::vector<std::string> args = base;
    args.emplace_back(shape);
    const CliResult r = runCli(args);
    EXPECT_EQ(r.code, 0) << shape << r.err;
    if (first.empty()) first = r.out;
    EXPECT_EQ(r.out, first) << shape;
  }
}

TEST(Bench, TellsWhereItRanAndOfWhat) {
  const Json bench =
      parseJson(runCli({"bench", kArchive, "--sizes", "1x1x32x32", "--duration", "10ms", "--threads", "1",
                        "--concurrency", "2", "--torch-executed-op", "aten::relu", "--format", "json"})
                    .out);
  EXPECT_EQ(bench["checksum"].text.size(), 16u);
  const Json& result = bench["results"][0];
  EXPECT_EQ(result["concurrency"].number, 2);
  EXPECT_EQ(result["sizes"].text, "1x1x32x32");
  EXPECT_GT(result["cut"]["nodes"].number, result["cut"]["nodes_in_engines"].number);
  EXPECT_NE(result["cut"]["first_reason"].text.find("USER_EXCLUDED, aten::relu is to stay out of engines"),
            std::string::npos);
  EXPECT_EQ(result["cut"]["hint"].text, "leave out --torch-executed-op aten::relu");
  EXPECT_GE(result["samples_ms"].size(), 6u);
}

TEST(Profile, SumsUpByModuleAndOperator) {
  const Json profile =
      parseJson(runCli({"profile", kArchive, "-i", "1x1x32x32:f32:ones", "--runs", "2", "--format", "json"}).out);
  double feat = 0, inner = 0;
  for (const Json& m : profile["modules"].items) {
    if (m["name"].text == "feat") feat = m["us"].number;
    if (m["name"].text.starts_with("feat.")) inner += m["us"].number;
  }
  EXPECT_GT(inner, 0);
  EXPECT_GE(feat, inner);
  const std::string text =
      runCli({"profile", kArchive, "-i", "1x1x32x32:f32:ones", "--runs", "2", "--by", "module"}).out;
  EXPECT_NE(text.find("  feat.conv1\n"), std::string::npos) << text;
}

// Lowering makes inner operators of some, which nobody has written.
TEST(Profile, HasTheOperatorsThatWereWritten) {
  const std::string graph = TSCOMPILE_TESTS_DIR "/golden/partition/explain_written.ir";
  const Json profile =
      parseJson(runCli({"profile", graph, "-i", "x=1x3x8x8:f32:ones", "--runs", "2", "--format", "json"}).out);
  std::string operators;
  for (const Json& one : profile["operators"].items) operators += one["name"].text + '\n';
  EXPECT_NE(operators.find("aten::conv2d\n"), std::string::npos) << operators;
  EXPECT_EQ(operators.find("aten::_convolution"), std::string::npos) << operators;
}

TEST(Help, IsTheSameHoweverItIsAskedFor) {
  const std::string all = runCli({"help"}).out;
  EXPECT_EQ(runCli({"--help"}).out, all);
  EXPECT_EQ(runCli({"-h"}).out, all);
#define TS_COMMAND(name)                                                 \
  EXPECT_EQ(runCli({#name, "--help"}).out, runCli({"help", #name}).out); \
  EXPECT_NE(all.find("  " #name " "), std::string::npos) << #name;
#include "tools/commands/commands.def"
#undef TS_COMMAND
}

// Measurements are put side by side by what they measured, and only so.
TEST(Bench, ComparesWhatHasTheSameInputs) {
  TemporaryFolder folder;
  const std::string graph =
      folder.write("g.ir", "graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)\n");
  const std::string other = folder.write("h.ir", "graph(%x : Tensor):\n  %y : Tensor = aten::neg(%x)\n  return (%y)\n");
  auto bench = [&](const std::string& model, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"bench", model, "--threads", "1", "--duration", "1ms", "--format", "json"};
    words.insert(words.end(), more.begin(), more.end());
    return runCli(words);
  };
  const std::string two = folder.write("two.json", bench(graph, {"-i", "x=2:f32:ones"}).out);
  EXPECT_EQ(parseJson(readText(two))["results"][0]["inputs"][0].text, "x=2:float32");
  const std::string baseline = "--baseline", much = "--fail-if-slower";
  // However the sizes are said.
  EXPECT_EQ(bench(graph, {"--sizes", "x=2", baseline, two, much, "1e9"}).code, 0);
  const CliResult three = bench(graph, {"--sizes", "x=3", baseline, two, much, "1e9"});
  EXPECT_EQ(three.code, 3);
  EXPECT_NE(three.err.find("nothing was measured in both"), std::string::npos) << three.err;
  EXPECT_NE(three.err.find("it has x=2:float32, and the model is to run with x=3:float32"), std::string::npos)
      << three.err;
  const CliResult neg = bench(other, {"-i", "x=2:f32:ones", baseline, two, much, "1e9"});
  EXPECT_EQ(neg.code, 0) << neg.err;
  EXPECT_NE(neg.err.find("the model differs: "), std::string::npos) << neg.err;
}

TEST(Inspect, AFolderWithAnEngineThatWasCut) {
  TemporaryFolder folder;
  const std::string model = TSCOMPILE_SOURCE_DIR "/samples/language/byte_gpt/model", built = folder / "built";
  ASSERT_EQ(
      runCli({"build", model + ".ir", "-w", model + ".weights", "--set", "max_seq_len=32", "-o", built, "-q"}).code, 0);
  std::filesystem::resize_file(built + "/rank0.engine", 1000);
  const CliResult r = runCli({"inspect", built});
  EXPECT_EQ(r.code, 3);
  EXPECT_NE(r.err.find("rank0.engine"), std::string::npos) << r.err;
}

TEST(Inspect, AFolderWithADamagedWeight) {
  TemporaryFolder folder;
  const std::string model = TSCOMPILE_SOURCE_DIR "/samples/language/byte_gpt/model", built = folder / "built";
  ASSERT_EQ(
      runCli({"build", model + ".ir", "-w", model + ".weights", "--set", "max_seq_len=32", "-o", built, "-q"}).code, 0);
  std::string engine = readText(built + "/rank0.engine");
  engine[engine.size() - 2000] = static_cast<char>(engine[engine.size() - 2000] ^ 1);
  writeText(built + "/rank0.engine", engine);
  for (const char* form : {"text", "json"}) {
    const CliResult r = runCli({"inspect", built, "--format", form});
    EXPECT_EQ(r.code, 3);
    EXPECT_NE(r.err.find("rank0.engine"), std::string::npos) << r.err;
    EXPECT_NE(r.err.find("damaged"), std::string::npos) << r.err;
  }
}

TEST(Refit, KeepsWhatAProgramWasExportedFor) {
  TemporaryFolder folder;
  const std::string engine = folder / "a.tse", again = folder / "b.tse";
  const std::string program = TSCOMPILE_TESTS_DIR "/data/exports/net.pt2";
  ASSERT_EQ(runCli({"compile", program, "--refittable", "-o", engine, "-q"}).code, 0);
  const std::string exported = "exported";
  const Json before = parseJson(runCli({"inspect", engine, "--format", "json"}).out)["files"][0];
  ASSERT_TRUE(before.has(exported));
  const std::string text = folder / "text", weights = text + "/model.safetensors";
  ASSERT_EQ(runCli({"convert", program, "-o", text, "-q"}).code, 0);
  const CliResult refitted = runCli({"refit", engine, "--weights", weights, "--partial", "-o", again});
  ASSERT_EQ(refitted.code, 0) << refitted.err;
  const Json after = parseJson(runCli({"inspect", again, "--format", "json"}).out)["files"][0];
  EXPECT_EQ(after[exported][0].text, before[exported][0].text);
}

TEST(Convert, WritesWhatInputsAreByDefault) {
  TemporaryFolder folder;
  const std::string text = folder / "text";
  ASSERT_EQ(runCli({"convert", TSCOMPILE_TESTS_DIR "/data/archives/source/MHolds.pt", "-o", text, "-q"}).code, 0);
  const std::string inputs = readText(text + "/inputs.txt");
  EXPECT_NE(inputs.find("scale=0.5\n"), std::string::npos) << inputs;
  EXPECT_NE(inputs.find("sizes=None\n"), std::string::npos) << inputs;
}

// The text that is made of a program finds its weights beside it, and in the program.
TEST(Rewrite, AProgramKeepsItsWeights) {
  TemporaryFolder folder;
  const std::string program = TSCOMPILE_TESTS_DIR "/data/exports/net.pt2", text = folder / "net.ir";
  const std::string rules = folder.write("a.rules",
                                         "rule a\nmatch:\ngraph(%x):\n  %y = aten::relu(%x)\n  return (%y)\n"
                                         "replace:\ngraph(%x):\n  %z : int = prim::Constant[value=0]()\n"
                                         "  %y = aten::clamp_min(%x, %z)\n  return (%y)\n");
  const CliResult rewritten = runCli({"rewrite", program, "--rules", rules, "-o", text});
  ASSERT_EQ(rewritten.code, 0) << rewritten.err;
  EXPECT_NE(readText(text).find("aten::clamp_min"), std::string::npos) << rewritten.err;
  EXPECT_EQ(readText(text).find("aten::relu"), std::string::npos);
  auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"run", "--print", "--input", "0=2x1x3x3:f32:randn(seed=1)"});
    const CliResult r = runCli(more);
    EXPECT_EQ(r.code, 0) << r.err;
    return r.out;
  };
  const std::string wanted = run({program});
  EXPECT_EQ(run({text, "--weights", folder / "net.safetensors"}), wanted);
  EXPECT_EQ(run({text, "--weights", program}), wanted);
}

// Those of several programs are of one file, and stay there.
TEST(Rewrite, SeveralProgramsLeaveTheirWeights) {
  TemporaryFolder folder;
  const std::string programs = TSCOMPILE_TESTS_DIR "/data/exports/several.pt2", text = folder / "several.ir";
  const std::string rules = folder.write("a.rules",
                                         "rule a\nmatch:\ngraph(%x, %w, %b):\n  %y = aten::linear(%x, %w, %b)\n"
                                         "  return (%y)\nreplace:\ngraph(%x, %w, %b):\n  %t = aten::t(%w)\n"
                                         "  %one : int = prim::Constant[value=1]()\n  %p = aten::matmul(%x, %t)\n"
                                         "  %y = aten::add(%p, %b, %one)\n  return (%y)\n");
  const CliResult rewritten = runCli({"rewrite", programs, "--rules", rules, "-o", text});
  ASSERT_EQ(rewritten.code, 0) << rewritten.err;
  EXPECT_NE(rewritten.err.find("the weights of these programs stay in " + programs), std::string::npos)
      << rewritten.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "several.safetensors"));
  const CliResult of = runCli({"run", programs, "--method", "first", "--print", "--input", "0=3x2:f32:ones"});
  const CliResult got = runCli({"run", text, "--weights", programs, "--print", "--input", "0=3x2:f32:ones"});
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_EQ(got.out, of.out);
}

}  // namespace
}  // namespace tscompile::test
