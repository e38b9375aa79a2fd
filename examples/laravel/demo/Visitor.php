<?php

namespace Demo;

use RuntimeException;

/**
 * A client of the site with one connection, which asks for one order after another and checks the answers.
 *
 * If the connection ends before the answer, it connects again and repeats the request, once. That is what browsers do.
 */
final class Visitor
{
    /** @var resource|null */
    public $connection = null;
    private int $number = 0;
    private bool $repeated = false;
    private int $since = 0;
    private string $received = '';

    public function __construct(private string $address, private Visits $visits)
    {
    }

    /** Counts further requests elsewhere. */
    public function count(Visits $visits): void
    {
        $this->visits = $visits;
    }

    /** Sends the next request. */
    public function ask(): void
    {
        $this->number = mt_rand(1, 1_000_000);
        $this->repeated = false;
        $this->since = hrtime(true);
        $this->send();
    }

    /** Reads what has arrived. True if the request is over, whether it was answered or not. */
    public function read(): bool
    {
        $bytes = fread($this->connection, 65_536);
        if ($bytes === '' || $bytes === false) {
            return feof($this->connection) && $this->lose();
        }
        $this->received .= $bytes;
        $head = strpos($this->received, "\r\n\r\n");
        if ($head === false || ! preg_match('/\r\ncontent-length: (\d+)\r\n/i', $this->received, $length)) {
            return false;
        }
        if (strlen($this->received) < $head + 4 + $length[1]) {
            return false;
        }
        $this->isRight(substr($this->received, $head + 4)) ? $this->visits->answered++ : $this->visits->failed++;
        $this->visits->times[] = hrtime(true) - $this->since;

        return true;
    }

    public function close(): void
    {
        $this->connection === null || fclose($this->connection);
        $this->connection = null;
    }

    private function isRight(string $body): bool
    {
        $order = json_decode($body, true);

        return str_starts_with($this->received, 'HTTP/1.1 200 ')
            && is_array($order)
            && ($order['number'] ?? null) === $this->number
            && ($order['total'] ?? null) === $this->number % 100 * 3 + 10;
    }

    private function send(): void
    {
        $this->received = '';
        $request = "GET /orders/$this->number HTTP/1.1\r\nHost: $this->address\r\n\r\n";
        $this->connection ??= $this->connect();
        // A failure is noticed by read(): the connection has ended.
        @fwrite($this->connection, $request);
    }

    /** @return resource */
    private function connect()
    {
        for ($end = microtime(true) + 5; microtime(true) < $end; usleep(5000)) {
            $connection = @stream_socket_client("tcp://$this->address", timeout: 5);
            if ($connection !== false) {
                stream_set_blocking($connection, false);

                return $connection;
            }
            $this->visits->refused++;
        }
        throw new RuntimeException("Nothing accepts connections at $this->address");
    }

    /** The connection has ended before the answer. True if that was the second time. */
    private function lose(): bool
    {
        $this->close();
        if ($this->repeated) {
            $this->visits->failed++;

            return true;
        }
        $this->repeated = true;
        $this->visits->again++;
        $this->send();

        return false;
    }
}
