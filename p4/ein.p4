// Pulser's explicit incast notification (section 3.1, Algorithm 1) in a reserved bit of the
// BTH, for v1model. docs/telemetry.md says how this reading differs from the listing.
//
// The listing averages N gradients, each a quotient. Here the queue's growth over the
// last N dequeues is compared with the time that they took, times the threshold:
// nothing is divided, and dequeues within one tick of the clock are no special case.
// Growth in no time at all is above every threshold, no growth is above none.
//
// v1model's clock ticks once a microsecond and its queues count packets: a queue is
// taken for that many packets of QUEUE_UNITS_PER_PACKET * 80 bytes. ein_tna.p4 has
// nanoseconds and cells.

#include <core.p4>
#include <v1model.p4>

#include "sluice/headers.p4"

// N, at most 64.
#ifndef EIN_WINDOW
#define EIN_WINDOW 50
#endif
#if EIN_WINDOW < 1 || EIN_WINDOW > 64
#error EIN_WINDOW must be from 1 to 64
#endif

// Of ports that have no entry. The threshold is in Mbps: a quarter of 100 Gbps.
#ifndef EIN_THRESHOLD
#define EIN_THRESHOLD 25000
#endif
// In units of 80 bytes: 120 KiB.
#ifndef EIN_HIGH_WATER
#define EIN_HIGH_WATER 1536
#endif
// Longest time between two dequeues that counts, in ticks: the port was idle. It is no
// shorter than a full packet takes on the wire.
#ifndef EIN_MAX_GAP
#define EIN_MAX_GAP 1
#endif

// 52 * 80 bytes: a payload of 4096 bytes with its headers.
#ifndef QUEUE_UNITS_PER_PACKET
#define QUEUE_UNITS_PER_PACKET 52
#endif
#define UNIT_BITS 640

#define PORTS 512
#define RING_LOG2 6

struct metadata_t {
    bit<32> threshold;
    bit<32> high_water;
    bit<32> max_gap;
}

#include "sluice/v1model.p4"

control FrameIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
#include "sluice/forward_v1model.p4"

    apply {
        if (hdr.mac.isValid()) {
            forward.apply();
        } else {
            to_pair();
        }
    }
}

control FrameEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    register<bit<32>>(PORTS) last_time;
    // Time while the port sends, which gaps add at most max_gap to.
    register<bit<32>>(PORTS) busy_time;
    register<bit<32>>(PORTS) position;
    register<bit<1>>(PORTS)  noticed;
    // The last N dequeues of each port: queue left behind, busy time.
    register<bit<32>>(PORTS << RING_LOG2) ring_queue;
    register<bit<32>>(PORTS << RING_LOG2) ring_time;

    action set_port(bit<32> threshold, bit<32> high_water, bit<32> max_gap) {
        meta.threshold = threshold;
        meta.high_water = high_water;
        meta.max_gap = max_gap;
    }

    table ein_port {
        key = { sm.egress_port : exact @name("egress_port"); }
        actions = { set_port; }
        default_action = set_port(EIN_THRESHOLD, EIN_HIGH_WATER, EIN_MAX_GAP);
        size = 512;
    }

    apply {
#include "sluice/prune_v1model.p4"
        bit<32> port = (bit<32>)sm.egress_port;
        bit<32> queue = (bit<32>)sm.deq_qdepth * QUEUE_UNITS_PER_PACKET;
        bit<32> now = (bit<32>)sm.egress_global_timestamp;
        bit<32> gap;
        bit<32> busy;
        bit<32> at;
        bit<32> old_queue;
        bit<32> old_busy;
        bit<1>  on;

        ein_port.apply();

        last_time.read(gap, port);
        last_time.write(port, now);
        gap = now - gap;
        if (gap > meta.max_gap) {
            gap = meta.max_gap;
        }
        busy_time.read(busy, port);
        busy = busy + gap;
        busy_time.write(port, busy);

        position.read(at, port);
        bit<32> slot = (port << RING_LOG2) + at;
        ring_queue.read(old_queue, slot);
        ring_queue.write(slot, queue);
        ring_time.read(old_busy, slot);
        ring_time.write(slot, busy);
        at = at + 1;
        if (at == EIN_WINDOW) {
            at = 0;
        }
        position.write(port, at);

        noticed.read(on, port);
        bit<64> took = (bit<64>)(busy - old_busy) * (bit<64>)meta.threshold;
        bit<64> grown = 0;
        if (queue > old_queue) {
            grown = (bit<64>)(queue - old_queue) * UNIT_BITS;
        }
        if (grown > took) {
            on = 1;
        } else if (queue <= meta.high_water) {
            on = 0;
        }
        noticed.write(port, on);

        if (sm.parser_error == error.NoError && hdr.bth.isValid() && on == 1) {
            hdr.bth.ein = 1;
        }
    }
}

V1Switch(FrameParser(), NoChecksumVerified(), FrameIngress(), FrameEgress(), NoChecksumUpdated(), FrameDeparser()) main;
