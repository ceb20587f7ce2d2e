// Per-hop INT over UDP in HPCC's and PowerTCP's 64 bits a hop, with source and sink,
// for v1model. docs/telemetry.md has the format and the roles of ports.
//
// v1model's clock ticks once a microsecond and its queues count packets: a queue is
// taken for that many packets of QUEUE_UNITS_PER_PACKET * 80 bytes. int_tna.p4 has
// nanoseconds and cells.

#include <core.p4>
#include <v1model.p4>

#define WITH_INT
#include "sluice/headers.p4"

// Roles of ports that have no entry.
#ifndef INGRESS_ROLE
#define INGRESS_ROLE leave
#endif
#ifndef EGRESS_ROLE
#define EGRESS_ROLE keep
#endif

// Rate of ports that have no entry, as a code of the network's table: 15 is none, and
// senders can do nothing with it.
#ifndef RATE_CODE
#define RATE_CODE 15
#endif
#if RATE_CODE < 0 || RATE_CODE > 15
#error RATE_CODE must be from 0 to 15
#endif

// 52 * 80 bytes: a payload of 4096 bytes with its headers.
#ifndef QUEUE_UNITS_PER_PACKET
#define QUEUE_UNITS_PER_PACKET 52
#endif

#define PORTS 512

struct metadata_t {
    bit<1>  changed;   // lengths, or a bit that the UDP checksum covers
    bit<1>  sink;
    bit<4>  rate;
    bit<16> removed;   // bytes
    bit<32> length;    // of the packet as it leaves
}

#include "sluice/v1model.p4"

control FrameVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_len, hdr.ipv4.identification, hdr.ipv4.flags,
              hdr.ipv4.frag_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control FrameUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && meta.changed == 1,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_len, hdr.ipv4.identification, hdr.ipv4.flags,
              hdr.ipv4.frag_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control FrameIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
#include "sluice/forward_v1model.p4"

    action leave() {
    }

    // The port leads to senders: what they send gets a shim.
    action source() {
        hdr.shim.setValid();
        hdr.shim.type_ = INT_TYPE;
        hdr.shim.npt = INT_NPT;
        hdr.shim.overflow = 0;
        hdr.shim.reflected = 0;
        hdr.shim.words = 0;
        hdr.shim.port = hdr.udp.dst_port;
        hdr.udp.dst_port = INT_PORT;
        hdr.udp.len = hdr.udp.len + INT_SHIM_BYTES;
        hdr.udp.checksum = 0;
        meta.length = meta.length + INT_SHIM_BYTES;
        meta.changed = 1;
    }

    table ingress_role {
        key = { sm.ingress_port : exact @name("ingress_port"); }
        actions = { leave; source; }
        default_action = INGRESS_ROLE();
        size = 512;
    }

    apply {
        meta.changed = 0;
        meta.length = sm.packet_length;
        // In one place, as BMv2 wants each table.
        if (hdr.mac.isValid()) {
            forward.apply();
        } else {
            to_pair();
        }
        if (sm.parser_error == error.NoError) {
            if (hdr.bth.isValid() && !hdr.shim.isValid() && sm.checksum_error == 0) {
                switch (ingress_role.apply().action_run) {
                    source: {
                        if (hdr.ipv4.isValid()) {
                            hdr.ipv4.total_len = hdr.ipv4.total_len + INT_SHIM_BYTES;
                        } else {
                            hdr.ipv6.payload_len = hdr.ipv6.payload_len + INT_SHIM_BYTES;
                        }
                    }
                }
            }
        }
    }
}

control FrameEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    // Bytes that each port has sent, as they leave.
    register<bit<32>>(PORTS) tx_bytes;

    action keep() {
        meta.sink = 0;
    }

    // The port leads to a NIC that does not know INT.
    action sink() {
        meta.sink = 1;
    }

    table egress_role {
        key = { sm.egress_port : exact @name("egress_port"); }
        actions = { keep; sink; }
        default_action = EGRESS_ROLE();
        size = 512;
    }

    action set_rate(bit<4> code) {
        meta.rate = code;
    }

    table port_rate {
        key = { sm.egress_port : exact @name("egress_port"); }
        actions = { set_rate; }
        default_action = set_rate(RATE_CODE);
        size = 512;
    }

    apply {
#include "sluice/prune_v1model.p4"
        bit<32> sent;
        meta.sink = 0;
        tx_bytes.read(sent, (bit<32>)sm.egress_port);
        if (sm.parser_error == error.NoError && sm.checksum_error == 0 && hdr.shim.isValid() && hdr.bth.isValid()) {
            if (hdr.bth.opcode != OPCODE_PROBE) {
                egress_role.apply();
            }
            if (meta.sink == 1) {
                meta.removed = ((bit<16>)hdr.shim.words << 2) + INT_SHIM_BYTES;
                meta.length = meta.length - (bit<32>)meta.removed;
                meta.changed = 1;
                hdr.udp.dst_port = hdr.shim.port;
                hdr.udp.len = hdr.udp.len - meta.removed;
                hdr.udp.checksum = 0;
                if (hdr.ipv4.isValid()) {
                    hdr.ipv4.total_len = hdr.ipv4.total_len - meta.removed;
                } else {
                    hdr.ipv6.payload_len = hdr.ipv6.payload_len - meta.removed;
                }
                hdr.shim.setInvalid();
#include "sluice/drop_hops.p4"
            } else if (hdr.shim.reflected == 0) {
                hdr.udp.checksum = 0;
                if (hdr.shim.words == INT_HOPS * INT_HOP_WORDS) {
                    hdr.shim.overflow = 1;
                } else {
                    port_rate.apply();
                    bit<32> units = (bit<32>)sm.deq_qdepth * QUEUE_UNITS_PER_PACKET;
                    if (units > 0xffff) {
                        units = 0xffff;
                    }
                    hdr.mine.setValid();
                    hdr.mine.rate = meta.rate;
                    hdr.mine.time = (bit<24>)(sm.egress_global_timestamp * TICK_NS);
                    hdr.mine.tx_bytes = sent[26:7];
                    hdr.mine.qlen = (bit<16>)units;
                    hdr.shim.words = hdr.shim.words + INT_HOP_WORDS;
                    hdr.udp.len = hdr.udp.len + INT_HOP_BYTES;
                    if (hdr.ipv4.isValid()) {
                        hdr.ipv4.total_len = hdr.ipv4.total_len + INT_HOP_BYTES;
                    } else {
                        hdr.ipv6.payload_len = hdr.ipv6.payload_len + INT_HOP_BYTES;
                    }
                    meta.length = meta.length + INT_HOP_BYTES;
                    meta.changed = 1;
                }
            }
        }
        tx_bytes.write((bit<32>)sm.egress_port, sent + meta.length);
    }
}

V1Switch(FrameParser(), FrameVerify(), FrameIngress(), FrameEgress(), FrameUpdate(), FrameDeparser()) main;
