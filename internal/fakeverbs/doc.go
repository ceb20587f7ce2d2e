// Package fakeverbs is a libibverbs for tests: devices that exist on no machine,
// with the abilities a test chooses. gcc builds it from the C sources in csrc. It
// replaces the real library through LD_LIBRARY_PATH, so that cgo programs linked
// with -libverbs and unmodified ones, perftest's among them, run on it:
//
//	dir := fakeverbs.Build(t)
//	cmd := exec.Command("ib_write_bw", "-d", "fake0")
//	cmd.Env = fakeverbs.Environ(dir, "FAKEVERBS_PROFILE=connectx")
//
// It stays beside package verbs/virtual, which runs the real libraries on an emulated
// ConnectX, for what that can't show: devices of other abilities (soft-RoCE's, rates on
// RC, narrow clocks), calls that fail on demand, a null provider to measure the code above
// it, and machines that lack rdma-core's mlx5 provider. What both could test runs there.
//
// It exports the names and symbol versions of rdma-core 44's libibverbs.so.1 and
// libmlx5.so.1. Functions that no test uses (memory windows, flow steering, XRC,
// DevX, importing, the commands of rdma-core's own drivers) exist and fail with
// EOPNOTSUPP. There is no librdmacm: the real one needs the kernel.
//
// # What it does
//
// A request is carried out and completes within the call that posts it. Towards a
// queue pair of the same process it moves data, checks keys and access, and takes
// receives, as RC, UC and UD do; a Send without a receive waits if rnr_retry is 7
// and fails otherwise. Towards any other queue pair it does nothing and succeeds.
// This makes it a null provider, to measure the overhead of code above it. Send
// queue entries come back when the completion that covers them is polled, and a
// full send queue refuses.
//
// Left out: a responder's queue pair stays usable after a remote access error,
// which raises QP_ACCESS_ERR only; the limit on reads outstanding is not enforced;
// a port's state never changes by itself; devices with an ABI older than
// IBVERBS_1.1's are not supported; UD needs the destination in the same process.
//
// # Settings
//
// All are environment variables, read as a device is opened. FAKEVERBS_NAME applies
// to all devices, FAKEVERBS_NAME_fake1 to the one called fake1. An invalid setting
// ends the process with status 2.
//
//	FAKEVERBS_DEVICES             names, "fake0" unless given; "" is none
//	FAKEVERBS_PROFILE             plain (default; like soft-RoCE) or connectx:
//	                              other values for what follows
//	FAKEVERBS_DATA                copy (default), or null: no data moves in
//	                              this process either
//	FAKEVERBS_SINGLE_THREADED     1: no locks, as MLX5_SINGLE_THREADED has it
//	FAKEVERBS_LACKS               calls the driver does not have at all, of:
//	                              query_device_ex, query_rt_values,
//	                              create_cq_ex, modify_cq, create_qp_ex,
//	                              create_srq_ex, modify_qp_rate_limit, and
//	                              extended: no extended call whatever
//
// Clocks. The counter runs on the host's CLOCK_MONOTONIC_RAW.
//
//	FAKEVERBS_TIMESTAMPS          none (default), or raw, wallclock or both;
//	                              connectx: both. ibv_create_cq_ex refuses others
//	FAKEVERBS_CLOCK_KHZ           hca_core_clock; 0 (default): none, connectx 156250
//	FAKEVERBS_CLOCK_BITS          width, 64 (default) to 8; connectx 63
//	FAKEVERBS_CLOCK_START         the counter's value at time 0
//	FAKEVERBS_DRIFT_PPM           of counter and wall clock together
//	FAKEVERBS_WALLCLOCK_OFFSET_NS of the wall clock to the host's
//	FAKEVERBS_MLX5                1: an mlx5 device; connectx has it
//	FAKEVERBS_MLX5_CLOCK          0: mlx5dv_get_clock_info refuses
//	FAKEVERBS_CLOCKINFO_BITS      width of its counter, 41
//
// Time. Without these a completion is there at once. With one, it is stamped
// and seen when the request would have been acknowledged; the data has moved
// before.
//
//	FAKEVERBS_LATENCY_NS          of each request
//	FAKEVERBS_LINE_BPS            all queue pairs of a device share it
//	FAKEVERBS_RATE_LIMIT          none (default), or some of rc, uc, ud, raw: the
//	                              types that ibv_modify_qp_rate_limit is granted
//	                              to; connectx: raw. A granted limit is kept
//	FAKEVERBS_RATE_MIN_KBPS, _RATE_MAX_KBPS   1 and 100000000
//
// Size and place.
//
//	FAKEVERBS_GIDS                the GID table: 10.0.0.1/v2,fe80::1/v1,-,... with
//	                              types v1, v2 and ib; - is an empty entry
//	FAKEVERBS_NETDEV              the interface its entries name
//	FAKEVERBS_MTU, _PORT_DOWN, _ACTIVE_SPEED, _ACTIVE_WIDTH (IBTA's codes, 100
//	Gbit/s unless given), _MAX_QP_WR, _MAX_SGE, _MAX_INLINE, _MAX_CQE,
//	_MAX_RD_ATOM, _MAX_MSG_SZ, _VENDOR_ID, _VENDOR_PART_ID, _ODP
//
// Faults, each a list joined by commas. The calls have libibverbs' names;
// csrc/fake.h lists them.
//
//	FAKEVERBS_FAIL                CALL:ERRNO[:AFTER[:TIMES]]: post_send:ENOMEM:3 lets
//	                              three calls pass and then fails every one,
//	                              post_send:12:3:1 only the fourth. post_send_wr
//	                              counts requests, and fails in the midst of a list
//	FAKEVERBS_EVENTS              EVENT@CALL[:NTH]: qp_fatal@post_send:12 raises
//	                              IBV_EVENT_QP_FATAL of the queue pair that the
//	                              twelfth post is to
//	FAKEVERBS_WC                  STATUS[:NTH]: rem_access_err:12 fails the device's
//	                              twelfth send request, and its queue pair with it
//	FAKEVERBS_LOG                 a file that calls are appended to, a line each:
//	                              time in ns, device, call, key=value...
//
// The library has one function more than the real one, for tests that find it with
// dlsym: int fakeverbs_raise(struct ibv_context *, const char *event, void *object)
// raises an event at once.
package fakeverbs
