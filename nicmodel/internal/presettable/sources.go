package main

// sources say of each parameter of the presets, by its name in scenarios, where its values are from. A preset
// named in one has that source, and the others the rest of it.
var sources = map[string]string{
	"pcie.rate":              "the products' pages; `timely10g`, `cx4lx`, `cx5`, `cx6`, `cx6ib`, `cx6dx`, `cx7`: by pcie-bench's model (SIGCOMM 2018), data link layer's packets taken off; `cx3`, `connectib`: 984.6 MB/s a lane (Kalia et al., ATC 2016, figure 2a)",
	"pcie.mps":               "pcie-bench's systems; an lspci dump of a ConnectX-6 Dx (l2fwd-nv issue 6)",
	"pcie.mrrs":              "pcie-bench's systems; an lspci dump of a ConnectX-6 Lx. The ConnectX-6 Dx of l2fwd-nv issue 6 is set to 4096",
	"pcie.rcb":               "pcie-bench's model",
	"pcie.read_completion":   "`cx3`, `connectib`: C_rc of Kalia et al. (section 2.1); others: not known, as MPS allows",
	"pcie.headers":           "pcie-bench: 24 B around a request, 20 B around a completion; kalia: 26 and 22 B",
	"pcie.read_latency":      "`cx3`, `connectib`: so that an atomic at one address takes 1/2.24 us on `connectib` (Kalia et al., figure 14); others: so that a 64-byte read takes 546 ns (pcie-bench, BDW median)",
	"pcie.write_latency":     "estimate",
	"pcie.tags":              "PCIe base specification 2.2.6.2: 32, or 256 with extended tags. `cx6dx`: ExtTag+ (l2fwd-nv issue 6), no 10-bit requester (a dump of a ConnectX-6 Lx); `cx3`: ExtTag-, recalled and not checked; others: estimates.",
	"pcie.nonposted_credits": "header credits of a port of 16 lanes, Intel's datasheet of Xeon C5500/C3500 (volume 1, table 76; PCIe 2.0, and half of it for 8 lanes); twice and four times that for PCIe 4.0 and 5.0: estimates",
	"pcie.nonposted_hold":    "estimate",
	"pcie.posted_credits":    "a header credit for each line of posted_data: estimate",
	"pcie.posted_data":       "93 cache lines: hostCC (SIGCOMM 2023), of a host with PCIe 3.0 x16, recalled and not checked; twice and four times that for PCIe 4.0 and 5.0: estimates",
	"pcie.posted_hold":       "an unloaded write through a host's write buffer (Understanding the Host Network, SIGCOMM 2024), recalled and not checked",

	"core_clock":        "`cx3`: driver source (hca_core_clock); `cx4lx`: what mlxuptime prints of an mt4117 in the vendor's documentation of it (MFT 4.34); `cx6`, `cx6ib`, `cx6dx`: so that `wqe_cycles` make 215 million messages/s (briefs of ConnectX-6 EN, and of 6 Dx as recalled); `cx7`: 330 million, recalled and not checked; others: estimates. Of these no firmware's report was found, and the 1 GHz that `cx6dx` and `cx7` report is their timestamps'",
	"doorbell_cycles":   "estimate",
	"wqe_cycles":        "`cx4lx`: so that it does 71 million messages/s, where its brief has 75; `cx3`, `connectib`: so that it does not limit; others: estimates",
	"scheduler_cycles":  "estimate",
	"packetiser_cycles": "estimate",
	"parse_cycles":      "estimate",
	"transport_cycles":  "estimate",
	"cqe_cycles":        "estimate",
	"pipeline_latency":  "`cx5`: fitted to the latency of 8 bytes (row L1), less the hosts' time and the link's error correction; `cx4lx`, `cx6`, `cx6ib`, `cx6dx`, `cx7`: the same time, estimates (the vendor says sub-600 ns of ConnectX-5 and of ConnectX-6 alike); others: estimates",
	"tx_buffer":         "estimate: so many packets of 1 KiB as cover the DMA's latency at 10, 50, 100, 200 and 400 Gbps, and the units' of `cx3` and `connectib`",
	"cqe_bytes":         "driver sources",
	"max_inline":        "perftest's limit for WRITEs; `connectib`: estimate. Devices do not report it",
	"wqe_prefetch":      "estimate: as many as one queue pair sends in two reads' time",
	"blueflame_busy":    "estimate",

	"units.units":   "estimates; `cx6`, `cx6ib`: as `connectib`",
	"units.request": "so that all units together do 35 and 137 million messages/s, recalled from the products' briefs and not checked, and 215 million, ConnectX-6 EN's brief: estimates. No published rate of another device calls for units",
	"units.answer":  "half of units.request: estimate",
	"units.read":    "`cx3`: so that Reads of 16 B that come in do 26 M/s where Writes do 35 (Kalia et al., figure 12); `connectib`: the same there for both",
	"units.replay":  "`cx3`, `connectib`: Kalia et al., figure 13b, where Reads lose a third and half of their rate to reads of elements, and Writes (13c) nothing of the kind; an estimate of the mechanism",

	"atomics.in_flight": "`connectib`: so that atomics at 4096 addresses do 52 M/s (Kalia et al., figure 14); others: estimates",
	"atomics.locks":     "estimate: the 12 lowest bits of the address, as Kalia et al. are cited for (Sherman, SIGMOD 2022, recalled and not checked); their figure 14 goes up to 4096 addresses",
	"atomics.cycles":    "estimate",

	"receive_buffer.bytes": "`cx5`: the vendor's guide to tuning receive buffers; others: estimates",
	"queues.doorbells":     "estimate",
	"queues.acks":          "estimate",
	"queues.completions":   "estimate",

	"receives.prefetch": "estimate",
	"receives.batch":    "estimate: a cache line of elements",

	"limiter.rates":    "the kernel's driver as it loads; entry 0 of 128 is for no limit. `timely10g`, `cx3`, `connectib`: exact, estimates",
	"limiter.min_rate": "the kernel's driver as it loads (row S1)",
	"limiter.max_rate": "`cx5`, `cx6dx`: the kernel's driver as it loads (row S1); `cx7`: that of a BlueField-3; `cx4lx`, `cx6`, `cx6ib`: estimates",
	"limiter.step":     "unit of `ibv_qp_rate_limit_attr`",
	"send_time.tick":   "`cx6dx`: the finest granularity in DPDK's mlx5 guide (`tx_pp`); `cx7`: estimate, as `limiter.tick`; the others do not schedule by time",
	"limiter.tick":     "estimate: the vendor says that gaps are a few nanoseconds",

	"state.bytes":    "`cx5`: eRPC (NSDI 2019) has about 2 MB on a ConnectX-5 for all, recalled and not checked; `cx3`: fitted to row apt-read32-144qp; others of a generation before have half as much, and later ones no less: estimates",
	"state.elements": "`cx6`: SMART (ASPLOS 2024), recalled and not checked: the rate falls beyond 768 requests outstanding; `connectib`: Kalia et al., figure 13b, where elements begin to be read again between 448 and 896 requests; others: estimates",
	"state.posted":   "`cx3`, `connectib`: Kalia et al., figure 13, where READs and WRITEs alike have elements read again as more are posted; of others no source has it",
	"state.ways":     "estimate",
	"state.fetches":  "`cx3`: fitted to row apt-read32-720qp; others: estimates",
	"state.context":  "mlx5 driver: `qpc` has 232 bytes, which take four lines; mlx4's entry has 256",
	"framing":        "the products",

	"transport.adp_retrans.enabled":                 "`cx4lx`: UCX issue 6000, where a ConnectX-4 has it, and neither window nor slow restart; `cx5`: perftest issue 251, where one sends again by it; `cx6`: a register read with firmware 20.43 (below), roce_adp_retrans_en 1; `cx6dx`, `cx7`: estimates. RoCE's, so not of `cx6ib`",
	"transport.adp_retrans.time_base":               "NVIDIA, Adaptive Retransmission: Parameters Control: the least that firmware takes",
	"transport.adp_retrans.timeout_init_low_bound":  "the default profile is not published. `cx5`: 2, 4, 8 and 16 ms between packets (perftest issue 251); `cx6`: timelines of one (below); `cx6dx`: 4, 8, 17 ms by Lumina (SIGCOMM 2023), recalled and not checked; `cx4lx`, `cx7`: estimates, as the nearest",
	"transport.adp_retrans.timeout_init_range_size": "as timeout_init_low_bound",

	"transport.nak_time":     "`cx5`, `cx6dx`: 2 us to make a NAK and 2 to 6 us to react, Lumina (SIGCOMM 2023), recalled and not checked; `cx4lx`: some 200 us in all by it, recalled and not checked; `cx6`, `cx7`: estimates, as the nearest",
	"transport.slow_restart": "`cx4lx` has none (UCX issue 6000); `cx6`: a register read with firmware 20.43, roce_slow_restart_en 1; `cx5`, `cx6dx`, `cx7`: NVIDIA's sample dump of an unnamed device has 1: estimates",

	"counter.hz":   "driver sources and dumps (hca_core_clock, row C1; `cx6`, `cx6ib`: below); `connectib`, `cx7`, `timely10g`: estimates",
	"counter.ppb":  "HUYGENS (NSDI 2018): typically 5 to 10 ppm",
	"counter.bits": "driver sources (row C2)",

	"max_sge":       "dumps below; `cx3`'s is its own, others have the mlx5 devices'",
	"max_rd_atomic": "dumps below",
	"max_qp_wr":     "dumps below",
}
