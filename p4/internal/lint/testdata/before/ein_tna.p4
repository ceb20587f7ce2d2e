// Pulser's explicit incast notification (section 3.1, Algorithm 1) in a reserved bit of the
// BTH, for Tofino. docs/telemetry.md says how this reading differs from the listing,
// and ein.p4 what is computed. Nothing can be multiplied here: each action of the
// table scale stands for ports of one rate, with a threshold of 0.267 times the rate.

#include "sluice/arch_tna.p4"

#include "sluice/headers.p4"

// N, at most 64.
#ifndef EIN_WINDOW
#define EIN_WINDOW 50
#endif
#if EIN_WINDOW < 1 || EIN_WINDOW > 64
#error EIN_WINDOW must be from 1 to 64
#endif

// Of ports that have no entry: the rate of the threshold.
#ifndef EIN_RATE
#define EIN_RATE rate_100g
#endif
// In cells of 80 bytes: 120 KiB.
#ifndef EIN_HIGH_WATER
#define EIN_HIGH_WATER 1536
#endif
// Longest time between two dequeues that counts, in nanoseconds: the port was idle. It
// is no shorter than a full packet takes on the wire.
#ifndef EIN_MAX_GAP
#define EIN_MAX_GAP 1024
#endif

#define RING_LOG2 6

struct metadata_t {
    bit<32> now;
    bit<32> before;
    bit<32> gap;
    bit<32> max_gap;
    bit<32> busy;
    bit<32> old_busy;
    bit<32> took;
    bit<32> queue;
    bit<32> old_queue;
    bit<32> grown;
    bit<32> grown_more;
    bit<32> excess;
    bit<32> high_water;
    bit<32> above;
    bit<16> at;
    bit<16> slot;
    bit<8>  on;
}

#include "sluice/tna.p4"

control FrameIngress(inout headers_t hdr, inout metadata_t meta,
                     in ingress_intrinsic_metadata_t ig_intr_md,
                     in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,
                     inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
                     inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
#include "sluice/forward_tna.p4"

    apply {
        if (ig_prsr_md.parser_err != 0) {
            malformed.count(ig_intr_md.ingress_port);
            discard();
        } else {
            forward.apply();
        }
    }
}

control FrameEgress(inout headers_t hdr, inout metadata_t meta,
                    in egress_intrinsic_metadata_t eg_intr_md,
                    in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
                    inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
                    inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    Register<bit<32>, PortId_t>(512, 0) last_time;
    RegisterAction<bit<32>, PortId_t, bit<32>>(last_time) swap_time = {
        void apply(inout bit<32> value, out bit<32> before) {
            before = value;
            value = meta.now;
        }
    };

    // Time while the port sends, which gaps add at most max_gap to.
    Register<bit<32>, PortId_t>(512, 0) busy_time;
    RegisterAction<bit<32>, PortId_t, bit<32>>(busy_time) add_time = {
        void apply(inout bit<32> value, out bit<32> sum) {
            value = value + meta.gap;
            sum = value;
        }
    };

    Register<bit<16>, PortId_t>(512, 0) position;
    RegisterAction<bit<16>, PortId_t, bit<16>>(position) next_position = {
        void apply(inout bit<16> value, out bit<16> at) {
            at = value;
            if (value == EIN_WINDOW - 1) {
                value = 0;
            } else {
                value = value + 1;
            }
        }
    };

    // The last N dequeues of each port: queue, busy time.
    Register<bit<32>, bit<16>>(512 << RING_LOG2, 0) ring_queue;
    RegisterAction<bit<32>, bit<16>, bit<32>>(ring_queue) swap_queue = {
        void apply(inout bit<32> value, out bit<32> old) {
            old = value;
            value = meta.queue;
        }
    };
    Register<bit<32>, bit<16>>(512 << RING_LOG2, 0) ring_time;
    RegisterAction<bit<32>, bit<16>, bit<32>>(ring_time) swap_busy = {
        void apply(inout bit<32> value, out bit<32> old) {
            old = value;
            value = meta.busy;
        }
    };

    Register<bit<8>, PortId_t>(512, 0) noticed;
    RegisterAction<bit<8>, PortId_t, bit<8>>(noticed) notice_on = {
        void apply(inout bit<8> value, out bit<8> on) {
            value = 1;
            on = value;
        }
    };
    RegisterAction<bit<8>, PortId_t, bit<8>>(noticed) notice_off = {
        void apply(inout bit<8> value, out bit<8> on) {
            value = 0;
            on = value;
        }
    };
    RegisterAction<bit<8>, PortId_t, bit<8>>(noticed) notice_same = {
        void apply(inout bit<8> value, out bit<8> on) {
            on = value;
        }
    };

    action set_port(bit<32> high_water, bit<32> max_gap) {
        meta.high_water = high_water;
        meta.max_gap = max_gap;
    }

    table ein_port {
        key = { eg_intr_md.egress_port : exact @name("egress_port"); }
        actions = { set_port; }
        default_action = set_port(EIN_HIGH_WATER, EIN_MAX_GAP);
        size = 512;
    }

    // The growth in cells times 96 at 25 Gbps is above the time in nanoseconds if the
    // queue grows faster than 640 / 96 = 6.67 Gbps; and so on.
    action rate_25g() {
        meta.grown_more = meta.grown << 6;
        meta.grown = meta.grown << 5;
    }

    action rate_50g() {
        meta.grown_more = meta.grown << 5;
        meta.grown = meta.grown << 4;
    }

    action rate_100g() {
        meta.grown_more = meta.grown << 4;
        meta.grown = meta.grown << 3;
    }

    action rate_200g() {
        meta.grown_more = meta.grown << 3;
        meta.grown = meta.grown << 2;
    }

    action rate_400g() {
        meta.grown_more = meta.grown << 2;
        meta.grown = meta.grown << 1;
    }

    table scale {
        key = { eg_intr_md.egress_port : exact @name("egress_port"); }
        actions = { rate_25g; rate_50g; rate_100g; rate_200g; rate_400g; }
        default_action = EIN_RATE();
        size = 512;
    }

    apply {
        ein_port.apply();
        meta.queue = (bit<32>)eg_intr_md.deq_qdepth;
        meta.now = (bit<32>)eg_prsr_md.global_tstamp;
        meta.before = swap_time.execute(eg_intr_md.egress_port);
        meta.gap = meta.now - meta.before;
        meta.gap = min(meta.gap, meta.max_gap);
        meta.busy = add_time.execute(eg_intr_md.egress_port);

        meta.at = next_position.execute(eg_intr_md.egress_port);
        meta.slot = (bit<16>)eg_intr_md.egress_port;
        meta.slot = meta.slot << RING_LOG2;
        meta.slot = meta.slot + meta.at;
        meta.old_queue = swap_queue.execute(meta.slot);
        meta.old_busy = swap_busy.execute(meta.slot);

        meta.took = meta.busy - meta.old_busy;
        meta.grown = meta.queue |-| meta.old_queue;
        scale.apply();
        meta.grown = meta.grown + meta.grown_more;
        meta.excess = meta.grown |-| meta.took;
        meta.above = meta.queue |-| meta.high_water;
        if (meta.excess != 0) {
            meta.on = notice_on.execute(eg_intr_md.egress_port);
        } else if (meta.above == 0) {
            meta.on = notice_off.execute(eg_intr_md.egress_port);
        } else {
            meta.on = notice_same.execute(eg_intr_md.egress_port);
        }
        if (hdr.bth.isValid() && meta.on == 1) {
            hdr.bth.ein = 1;
        }
    }
}

Pipeline(FrameIngressParser(), FrameIngress(), FrameIngressDeparser(), FrameEgressParser(), FrameEgress(), FrameEgressDeparser()) pipe;

Switch(pipe) main;
