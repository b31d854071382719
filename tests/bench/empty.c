/* What every preload costs, whatever is in it. */
extern int noclobber_bench_empty;
int noclobber_bench_empty;
