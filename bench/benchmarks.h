// What bench/main.cc calls before it runs: each function registers one family, once per available target where that
// applies. Names are family/case/target.
#ifndef ATTEND_BENCH_BENCHMARKS_H_
#define ATTEND_BENCH_BENCHMARKS_H_

namespace attend::bench {

// kernels/: inner routines of one target.
void register_machine_benchmarks();
void register_pack_benchmarks();
void register_tile_product_benchmarks();
void register_value_pairs_benchmarks();
void register_tile_parts_benchmarks();
void register_dot_tile_benchmarks();
void register_masked_softmax_benchmarks();
void register_softmax_tile_benchmarks();
void register_query_lanes_benchmarks();
void register_few_rows_benchmarks();
void register_additive_score_benchmarks();
void register_hwy_tanh_benchmarks();
// matmul/: dense products, our own and oneDNN's.
void register_linear_benchmarks();
// layers/: whole layers, as a service calls them.
void register_layer_benchmarks();
void register_additive_benchmarks();
void register_length_benchmarks();
void register_threads_benchmarks();
// contest/: the same problems by other means.
void register_dnnl_materialised_benchmarks();
void register_dnnl_graph_benchmarks();
void register_naive_benchmarks();
void register_additive_eager_benchmarks();
// plan/: the planner's choices beside the paths it did not take.
void register_planner_benchmarks();

}  // namespace attend::bench

#endif  // ATTEND_BENCH_BENCHMARKS_H_
