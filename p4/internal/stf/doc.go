// Package stf reads and runs the test files (.stf) that P4's reference compiler keeps
// beside its programs: packets in, packets expected, table entries. A line is a command; # begins a comment.
//
//	packet PORT HEX...                 send a packet
//	expect PORT [HEX... [$]]           a packet has to leave; * matches any digit; without $ more bytes
//	                                   may follow; without digits anything may leave by the port
//	add TABLE [PRIORITY] KEY:VALUE... ACTION(NAME:VALUE, ...)
//	setdefault TABLE ACTION(NAME:VALUE, ...)
//	remove all                         empty all tables
//	wait                               nothing: commands run in order
//	mirroring_add SESSION PORT         a clone session
//	mirroring_add_mc SESSION GROUP
//	mc_mgrp_create GROUP
//	mc_node_create RID PORT...         nodes are numbered from 0
//	mc_node_associate GROUP NODE
//	register_write NAME INDEX VALUE
//	register_reset NAME
//	check_register NAME INDEX VALUE
//	check_counter NAME(INDEX) [packets|bytes] == COUNT
//	lpf_set NAME INDEX SETTING=VALUE...   a low-pass filter of TNA: type (rate or sample), gain and decay
//	                                   (times), scale (a power of two); INDEX of a direct one is 0
//	wred_set NAME INDEX SETTING=VALUE...  an early drop of TNA: time, min, max, probability (0 to 1)
//	meta NAME=VALUE...                 intrinsic values of the packets that follow
//
// From check_register on they are extensions; check_counter is that of other back ends. meta takes ingress_time,
// enqueue_time and dequeue_time (300ns, 1.5us; the latter two are the ingress time if not given),
// enqueue_bytes, enqueue_packets, dequeue_bytes, dequeue_packets, queue and class.
//
// Values are 10, 0x1f, 0b11 or 10.0.0.1. In keys * stands for any digit of 0x and 0b;
// V/LENGTH is a prefix, V&&&MASK a mask, LO..HI (or LO->HI) a range, * anything. Keys may
// be named by the last parts of what the program calls them, x[1] also as x$1, and a
// slice x[7:4] also as x.slice. If several entries of a table with ternary, range or optional
// keys match, the one with the greatest priority wins.
//
// Packets must leave each port in the order in which they are expected there, and no others.
package stf
