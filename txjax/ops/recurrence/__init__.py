"""Recurrent cells, a file each: the gates of a cell, one step of it, and the cell over a sequence.

A cell reads x already projected to its gates, since those products need not wait for one another; only the products
with the hidden state are left to the steps. Hidden states are float32 whatever the type of x: what is added up over
many steps must not be rounded at each. The products with them are computed in x's type.
"""

from txjax.ops.recurrence.gru import gru, gru_gates, gru_step
from txjax.ops.recurrence.linear_attention import LinearState, linear_attention, linear_attention_step
from txjax.ops.recurrence.lstm import LSTMState, cudnn_lstm, lstm, lstm_gates, lstm_step
from txjax.ops.recurrence.min_gru import min_gru, min_gru_step
from txjax.ops.recurrence.rnn import rnn, rnn_gate, rnn_step
from txjax.ops.recurrence.search import gru_search

__all__ = [
    "LSTMState",
    "LinearState",
    "cudnn_lstm",
    "gru",
    "gru_gates",
    "gru_search",
    "gru_step",
    "linear_attention",
    "linear_attention_step",
    "lstm",
    "lstm_gates",
    "lstm_step",
    "min_gru",
    "min_gru_step",
    "rnn",
    "rnn_gate",
    "rnn_step",
]
