<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\ConnectionRefused;
use Stoker\InvalidRequest;

/** The addresses of the server, and which of them is used next. @internal */
final class Servers
{
    /** @var array<string, int> index of the address to which this process connected last, by the list of addresses */
    private static array $lastGood = [];

    /** @var non-empty-list<Address> */
    private array $addresses;
    private int $index = 0;

    /**
     * @param string $list  one or several addresses, separated by commas
     * @param string $where where the list comes from, for error messages
     * @throws InvalidRequest
     */
    private function __construct(private string $list, string $where)
    {
        $this->addresses = Address::list($list, $where);
        $this->index = self::$lastGood[$list] ?? 0;
    }

    /**
     * The addresses in $argument or, if it is null, in the environment; null if neither has one.
     *
     * @throws InvalidRequest an address is invalid
     */
    public static function find(?string $argument): ?self
    {
        if ($argument !== null) {
            return new self($argument, 'the parameter $socket');
        }
        $variable = Address::variable();

        return $variable === null ? null : new self((string) getenv($variable), $variable);
    }

    public function current(): Address
    {
        return $this->addresses[$this->index];
    }

    /** Moves on to the next address. */
    public function next(): void
    {
        $this->index = ($this->index + 1) % count($this->addresses);
    }

    /** Whether any of the addresses is a TCP address. */
    public function hasRemote(): bool
    {
        foreach ($this->addresses as $address) {
            if ($address->isRemote()) {
                return true;
            }
        }

        return false;
    }

    /**
     * Connects to the first address that can be reached, starting with the current one. Tries each of them once.
     *
     * @template T
     * @param callable(Address, float): T $connect called with an address and its time limit in seconds
     * @param float $limit time limit for one attempt, in seconds
     * @param ?int  $until hrtime() at which all attempts must have ended; null = no limit
     * @return T
     * @throws ConnectionRefused
     */
    public function connect(callable $connect, float $limit, ?int $until): mixed
    {
        if ($until === null && count($this->addresses) === 1) {
            return $connect($this->addresses[0], $limit);
        }
        $errors = [];
        foreach ($this->addresses as $_) {
            $left = $until === null ? $limit : ($until - hrtime(true)) / 1e9;
            if ($left <= 0 && $errors !== []) {
                break;
            }
            try {
                $connected = $connect($this->current(), min($limit, max(0.001, $left)));
                self::$lastGood[$this->list] = $this->index;

                return $connected;
            } catch (ConnectionRefused $e) {
                $errors[] = $e;
                $this->next();
            }
        }

        throw self::joined($errors);
    }

    /** @param non-empty-list<ConnectionRefused> $errors one for each address that was tried */
    private static function joined(array $errors): ConnectionRefused
    {
        if (count($errors) === 1) {
            return $errors[0];
        }
        $e = new ConnectionRefused(implode('; ', array_map(static fn (ConnectionRefused $e) => $e->getMessage(), $errors)), 0, $errors[0]);
        $waits = array_filter(array_map(static fn (ConnectionRefused $e) => $e->retryAfter, $errors), 'is_float');
        $e->retryAfter = $waits === [] ? null : min($waits);
        $e->isMisconfigured = array_filter($errors, static fn (ConnectionRefused $e) => !$e->isMisconfigured) === [];

        return $e;
    }
}
