// Multi-head attention: parameters under the names that models have in the wild, checked, packed and lowered to a
// LayerImpl.
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "attend/layers.h"
#include "engine/base/message.h"
#include "engine/layers/names.h"
#include "engine/layers/score_weights.h"
#include "engine/plan/layer.h"

namespace attend {
namespace {

using detail::require;

// What the tensors are called where they come from, for messages.
struct Names {
  std::string W_q = "W_q", W_k = "W_k", W_v = "W_v", W_o = "W_o";
  std::string b_q = "b_q", b_k = "b_k", b_v = "b_v", b_o = "b_o";
  std::string source;  // "file:prefix: " or nothing
};

// Throw Error naming the tensor that does not fit, these four.
void check_ranks(const MultiHeadParameters& p, const Names& names) {
  const auto named = [&](const std::string& name) { return names.source + name; };
  detail::check_parameter(p.W_q, named(names.W_q), {{"H*D"}, {"Dq"}});
  detail::check_parameter(p.W_k, named(names.W_k), {{"Hkv*D"}, {"Dk"}});
  detail::check_parameter(p.W_v, named(names.W_v), {{"Hkv*Dh"}, {"Dv"}});
  detail::check_parameter(p.W_o, named(names.W_o), {{"output size"}, {"H*Dh"}});
}

void check_biases(const MultiHeadParameters& p, const Names& names) {
  const auto named = [&](const std::string& name) { return names.source + name; };
  detail::check_bias(p.b_q, named(names.b_q), p.W_q.size(0));
  detail::check_bias(p.b_k, named(names.b_k), p.W_k.size(0));
  detail::check_bias(p.b_v, named(names.b_v), p.W_v.size(0));
  detail::check_bias(p.b_o, named(names.b_o), p.W_o.size(0));
}

// What must agree among the tensors themselves, where the numbers of heads are not known: W_q has H / Hkv times the
// rows of W_k, and W_o that many columns per row of W_v.
void check_shapes(const MultiHeadParameters& p, const Names& names) {
  check_ranks(p, names);
  const auto named = [&](const std::string& name) { return names.source + name; };
  const std::int64_t hidden = p.W_q.size(0), key_hidden = p.W_k.size(0), value_hidden = p.W_v.size(0);
  const std::int64_t pooled = p.W_o.size(1);
  if (key_hidden == hidden) {
    detail::check_parameter(p.W_o, named(names.W_o), {{"output size"}, {"H*Dh", value_hidden}});
  } else if (pooled % value_hidden != 0) {
    fail(named(names.W_o), " is ", to_string(p.W_o.sizes()), ", expected (output size, a multiple of ", value_hidden,
         "), the rows of ", names.W_v);
  } else if (key_hidden * (pooled / value_hidden) != hidden) {
    const std::int64_t group = pooled / value_hidden;
    fail(named(names.W_k), " is ", to_string(p.W_k.sizes()), ", expected (",
         hidden % group == 0 ? std::to_string(hidden / group) : "a divisor of " + std::to_string(hidden),
         ", Dk): ", names.W_q, " has ", hidden, " rows, ", names.W_v, " has ", value_hidden, " and ", names.W_o,
         " has ", pooled, " columns");
  }
  check_biases(p, names);
}

// Throws Error for a tensor of what the library does not have.
void refuse(const Parameters& parameters, const std::string& group, std::initializer_list<const char*> names,
            const char* why) {
  for (const char* name : names) {
    if (!parameters.contains(group + name)) continue;
    fail(detail::source_of(parameters), ": ", group, name, " is present, expected none: attend has no ", why);
  }
}
void refuse_extra_rows(const Parameters& parameters) {
  refuse(parameters, "", {"bias_k", "bias_v"}, "extra key and value rows");
}

// Looks up four matrices and their optional biases by stem: stem.weight and stem.bias.
struct Stems {
  std::string q, k, v, o;
};
MultiHeadParameters from_stems(const Parameters& parameters, const Stems& stems, const char* meaning) {
  const auto weight = [&](const std::string& stem) { return require(parameters, stem + ".weight", meaning); };
  const auto bias = [&](const std::string& stem) { return parameters.find(stem + ".bias"); };
  // Of models that call their matrices so, but add to the scores, or change what is scored or what comes out: BERT with
  // relative positions, Swin, WavLM; ESM, early Llama; norms of several models, inner_attn_ln of Kosmos-2.
  const std::string group = stems.q.substr(0, stems.q.rfind('.') + 1);
  const auto unsupported = {"distance_embedding.weight",
                            "relative_position_bias_table",
                            "gru_rel_pos_const",
                            "rotary_embeddings.inv_freq",
                            "rotary_emb.inv_freq",
                            "q_norm.weight",
                            "k_norm.weight",
                            "inner_attn_ln.weight"};
  refuse(parameters, group, unsupported, "relative positions, no rotary embeddings and no norms between projections");
  const MultiHeadParameters p{.W_q = weight(stems.q),
                              .W_k = weight(stems.k),
                              .W_v = weight(stems.v),
                              .W_o = weight(stems.o),
                              .b_q = bias(stems.q),
                              .b_k = bias(stems.k),
                              .b_v = bias(stems.v),
                              .b_o = bias(stems.o),
                              .w_v = parameters.find("w_v.weight")};
  check_shapes(p,
               {stems.q + ".weight", stems.k + ".weight", stems.v + ".weight", stems.o + ".weight", stems.q + ".bias",
                stems.k + ".bias", stems.v + ".bias", stems.o + ".bias", detail::source_of(parameters) + ": "});
  return p;
}

// Hugging Face's BART, OPT, CLIP, Whisper and others of their kind, fairseq's too. All have biases, but Whisper's keys.
// Layers that rotate queries and keys by their positions differ in names (Llama: o_proj) or by having no biases
// (GPT-J), and nothing else in a checkpoint says so.
MultiHeadParameters from_bart(const Parameters& parameters) {
  constexpr const char* kElse =
      "; where yours does not, name its tensors W_q.weight, W_k.weight, W_v.weight and W_o.weight";
  if (parameters.contains("o_proj.weight")) {
    fail(detail::source_of(parameters),
         ": o_proj.weight is present, expected out_proj.weight: a layer that calls it o_proj (Llama and many others) "
         "rotates queries and keys by their positions, which attend does not",
         kElse);
  }
  refuse_extra_rows(parameters);
  const MultiHeadParameters p = from_stems(parameters, {"q_proj", "k_proj", "v_proj", "out_proj"},
                                           "a matrix of multi-head attention (Hugging Face BART names)");
  const auto require_bias = [&](const TensorView<const float>& bias, const char* name, std::int64_t rows) {
    if (!bias.empty()) return;
    fail(detail::source_of(parameters), ": ", name, " is missing, expected (", rows,
         "): a layer of these names without it rotates queries and keys by their positions (GPT-J) or scales otherwise "
         "(GPT-Neo)",
         kElse);
  };
  require_bias(p.b_q, "q_proj.bias", p.W_q.size(0));
  require_bias(p.b_v, "v_proj.bias", p.W_v.size(0));
  require_bias(p.b_o, "out_proj.bias", p.W_o.size(0));
  return p;
}

// torch.nn.MultiheadAttention: one in_proj_weight (3E, E), or three where key or value sizes differ; one bias for all
// three.
MultiHeadParameters from_torch(const Parameters& parameters) {
  const char* meaning = "a matrix of multi-head attention (torch.nn.MultiheadAttention names)";
  refuse_extra_rows(parameters);
  MultiHeadParameters p;
  const TensorView<const float> packed = parameters.find("in_proj_weight");
  if (!packed.empty()) {
    if (packed.rank() != 2 || packed.size(0) % 3 != 0) {
      fail(detail::source_of(parameters), ": in_proj_weight is ", to_string(packed.sizes()), ", expected (3 E, E)");
    }
    const std::int64_t rows = packed.size(0) / 3, columns = packed.size(1);
    p.W_q = TensorView<const float>(packed.data(), {rows, columns});
    p.W_k = TensorView<const float>(packed.data() + rows * columns, {rows, columns});
    p.W_v = TensorView<const float>(packed.data() + 2 * rows * columns, {rows, columns});
  } else {
    p.W_q = require(parameters, "q_proj_weight", meaning);
    p.W_k = require(parameters, "k_proj_weight", meaning);
    p.W_v = require(parameters, "v_proj_weight", meaning);
  }
  const TensorView<const float> bias = parameters.find("in_proj_bias");
  if (!bias.empty()) {
    const std::int64_t q = p.W_q.size(0), k = p.W_k.size(0), v = p.W_v.size(0);  // equal but for shared heads
    if (bias.rank() != 1 || bias.size(0) != q + k + v) {
      fail(detail::source_of(parameters), ": in_proj_bias is ", to_string(bias.sizes()), ", expected (", q + k + v,
           ")");
    }
    p.b_q = TensorView<const float>(bias.data(), {q});
    p.b_k = TensorView<const float>(bias.data() + q, {k});
    p.b_v = TensorView<const float>(bias.data() + q + k, {v});
  }
  p.W_o = require(parameters, "out_proj.weight", meaning);
  p.b_o = parameters.find("out_proj.bias");
  p.w_v = parameters.find("w_v.weight");
  const bool one = !packed.empty();
  check_shapes(p, {one ? "in_proj_weight" : "q_proj_weight", one ? "in_proj_weight" : "k_proj_weight",
                   one ? "in_proj_weight" : "v_proj_weight", "out_proj.weight", "in_proj_bias", "in_proj_bias",
                   "in_proj_bias", "out_proj.bias", detail::source_of(parameters) + ": "});
  return p;
}

void check_additive_scoring(const MultiHeadParameters& p, std::int64_t num_heads, std::int64_t head_size) {
  if (p.w_v.empty()) {
    fail("w_v.weight is missing, expected (", num_heads, ", ", head_size,
         ") for additive scoring in multi-head attention");
  }
  detail::check_parameter(p.w_v, "w_v.weight", {{"H", num_heads}, {"D", head_size}});
}

// Heads of keys and values, checked.
std::int64_t num_kv_heads_of(const MultiHeadOptions& options) {
  const std::int64_t heads = options.num_heads, kv_heads = options.num_kv_heads;
  check_is_one_of("scoring", options.scoring, Scoring::kDot, Scoring::kAdditive, "Scoring::kDot or kAdditive");
  if (heads < 1) fail("num_heads is ", heads, ", expected at least 1");
  if (kv_heads < 0 || (kv_heads > 0 && heads % kv_heads != 0)) {
    fail("num_kv_heads is ", kv_heads, ", expected a divisor of num_heads, ", heads, ", or 0 for as many");
  }
  if (options.scoring == Scoring::kAdditive && kv_heads != 0 && kv_heads != heads) {
    fail("num_kv_heads is ", kv_heads, ", expected num_heads, ", heads,
         ", or 0: additive scoring has no heads of keys that queries share");
  }
  return kv_heads != 0 ? kv_heads : heads;
}

// What must agree where they are known.
void check_heads(const MultiHeadParameters& p, std::int64_t heads, std::int64_t kv_heads) {
  const std::int64_t hidden = p.W_q.size(0), value_hidden = p.W_v.size(0), pooled = p.W_o.size(1);
  if (hidden % heads != 0) {
    fail("num_heads is ", heads, ", expected a divisor of ", hidden, ", the rows of W_q");
  }
  const std::int64_t key_hidden = hidden / heads * kv_heads;
  if (p.W_k.size(0) != key_hidden) {
    fail("W_k is ", to_string(p.W_k.sizes()), ", expected (", key_hidden, ", Dk): num_kv_heads is ", kv_heads,
         ", and a head of W_q's has ", hidden / heads, " rows");
  }
  if (value_hidden % kv_heads == 0) {
    detail::check_parameter(p.W_o, "W_o", {{"output size"}, {"H*Dh", value_hidden / kv_heads * heads}});
  } else if (value_hidden == pooled) {
    fail("num_heads is ", heads, ", expected a divisor of ", pooled, ", the columns of W_o");
  } else {
    fail("W_v is ", to_string(p.W_v.sizes()), ", expected (",
         pooled % heads == 0 ? std::to_string(pooled / heads * kv_heads) : "a multiple of " + std::to_string(kv_heads),
         ", Dv): num_kv_heads is ", kv_heads, ", and W_o has ", pooled, " columns for num_heads ", heads);
  }
}

std::shared_ptr<const detail::LayerImpl> build(const MultiHeadOptions& options, const MultiHeadParameters& p) {
  const std::int64_t kv_heads = num_kv_heads_of(options);
  if (options.scale) detail::check_scale(*options.scale);
  check_ranks(p, {});
  check_heads(p, options.num_heads, kv_heads);
  check_biases(p, {});
  const std::int64_t hidden = p.W_q.size(0);
  const bool additive = options.scoring == Scoring::kAdditive;
  if (additive && options.scale) fail("scale is ", *options.scale, ", expected none: additive scoring has no scale");
  if (additive) check_additive_scoring(p, options.num_heads, hidden / options.num_heads);

  auto layer = std::make_shared<detail::LayerImpl>();
  layer->name = "multi-head";
  layer->parameters = additive ? "W_q, W_k, W_v and W_o, each head scored by w_v . tanh(q + k)"
                               : "W_q, W_k, W_v and W_o, each head scored by scale q . k";
  layer->score = additive ? detail::Score::kAdditive : detail::Score::kDot;
  layer->is_multi_head = true;
  layer->num_heads = options.num_heads;
  layer->num_kv_heads = kv_heads;
  layer->query_size = p.W_q.size(1);
  layer->key_size = p.W_k.size(1);
  layer->value_size = p.W_v.size(1);
  layer->score_size = hidden / options.num_heads;
  layer->head_value_size = p.W_o.size(1) / options.num_heads;
  layer->output_size = p.W_o.size(0);
  layer->query = std::make_shared<matmul::Linear>(p.W_q, p.b_q, "W_q");
  layer->key = std::make_shared<matmul::Linear>(p.W_k, p.b_k, "W_k");
  layer->value = std::make_shared<matmul::Linear>(p.W_v, p.b_v, "W_v");
  layer->output = std::make_shared<matmul::Linear>(p.W_o, p.b_o, "W_o");
  layer->scale = options.scale;
  if (additive) {
    std::vector<float> w_v;
    for (std::int64_t h = 0; h < options.num_heads; ++h) {
      for (std::int64_t d = 0; d < layer->score_size; ++d) w_v.push_back(*p.w_v.at(h, d));
    }
    detail::set_score_weights(*layer, std::move(w_v));
  }
  return layer;
}

}  // namespace

MultiHeadParameters MultiHeadParameters::from(const Parameters& parameters) {
  if (parameters.contains("in_proj_weight") || parameters.contains("q_proj_weight")) return from_torch(parameters);
  if (parameters.contains("W_q.weight")) {
    return from_stems(parameters, {"W_q", "W_k", "W_v", "W_o"}, "a matrix of multi-head attention (textbook names)");
  }
  const char* bert = "a matrix of multi-head attention (Hugging Face BERT names)";
  if (parameters.contains("self.query.weight")) {
    return from_stems(parameters, {"self.query", "self.key", "self.value", "output.dense"}, bert);
  }
  if (parameters.contains("query.weight"))
    return from_stems(parameters, {"query", "key", "value", "output.dense"}, bert);
  if (parameters.contains("q_proj.weight")) return from_bart(parameters);
  fail(detail::source_of(parameters),
       ": no multi-head parameters, expected W_q.weight (textbook), in_proj_weight or q_proj_weight "
       "(torch.nn.MultiheadAttention), query.weight (Hugging Face BERT) or q_proj.weight (Hugging Face BART, OPT, "
       "CLIP, Whisper); found ",
       detail::names_there(parameters));
}

MultiHeadAttention::MultiHeadAttention(const MultiHeadOptions& options, const MultiHeadParameters& parameters)
    : Attention(build(options, parameters)) {}

}  // namespace attend
